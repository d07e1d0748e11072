// SPDX-License-Identifier: MIT
// The template language, row by row: a template and what Python's jinja2 3.1.6 prints for it in the
// environment of transformers, with kContext as variables.
#include "tests/chat/support.h"

#include <gtest/gtest.h>

namespace nib::test {
namespace {

constexpr const char* kContext =
    "{\"s\":\"h\\u00e9llo w\\u00f6rld\",\"t\":\"  a,b\\tc\\n\\nd  "
    "\",\"e\":\"\",\"n\":5,\"m\":-3,\"f\":2.5,\"b"
    "\":true,\"z\":null,\"l\":[3,1,2],\"w\":[\"b\",\"A\",\"c\",\"a\"],\"d\":{\"b\":1,\"a\":2,\"C\":"
    "[1,{\"x\":nu"
    "ll}]},\"u\":[{\"n\":\"x\",\"v\":1},{\"n\":\"Y\",\"v\":2,\"q\":null},{\"n\":\"x\",\"v\":3}],"
    "\"em\":\"\\ud83d"
    "\\ude00\\u00df\",\"y\":{\"b\":[1,2],\"a\":{\"z\":1}},\"x\":{\"b\":1,\"a\":\"T > 10 & <5 "
    "(user's) \\u00e9"
    "\\ud83d\\ude00\",\"n\":null,\"t\":true,\"f\":1.0,\"l\":[1,[]],\"o\":{}},\"messages\":[{"
    "\"role\":\"u"
    "ser\",\"content\":\"a\"},{\"role\":\"x\",\"content\":\"b\"},{\"role\":\"user\",\"content\":"
    "\"c\"}]}";

struct Row {
    const char* source;
    const char* expected;
};

void check(const Row* begin, const Row* end) {
    const Json context = json(kContext);
    for (const Row* row = begin; row != end; ++row) {
        EXPECT_EQ(render(row->source, context), row->expected) << row->source;
    }
}

constexpr Row kExpressions[] = {
    {"{{ 1 + 2 * 3 - 4 / 2 }}|{{ (1 + 2) * 3 }}|{{ 2 ** 3 ** 2 }}|{{ -2 ** 2 }}", "5.0|9|64|4"},
    {"{{ 7 // 2 }}|{{ -7 // 2 }}|{{ -7 % 3 }}|{{ 7 % -3 }}|{{ 7.5 // 2 }}|{{ -7.5 % 2 }}|{{ 2 ** "
     "-1 }}|{{ 7 / 2 }}",
     "3|-4|2|-2|3.0|0.5|0.5|3.5"},
    {"{{ 1 < 2 < 3 }}|{{ 3 > 2 > 2 }}|{{ 1 == 1.0 }}|{{ true == 1 }}|{{ 'a' < 'b' }}|{{ [1, 2] < "
     "[1, 3] }}|{{ (1,) == [1] }}",
     "True|False|True|True|True|True|False"},
    {"{{ 1 in [1, 2] }}|{{ 'b' not in 'abc' }}|{{ 'k' in {'k': 1} }}|{{ not 1 in [2] }}|{{ 3 in "
     "range(5) }}|{{ n in l }}",
     "True|False|True|True|True|False"},
    {"{{ 'a' ~ 1 ~ none ~ true ~ 1.5 }}|{{ 'a' 'b' \"c\" }}|{{ 'a' + 'b' * 3 }}|{{ [1] + [2] }}|{{ "
     "(1,) + (2,) }}|{{ [0] * 3 }}",
     "a1NoneTrue1.5|abc|abbb|[1, 2]|(1, 2)|[0, 0, 0]"},
    {"{{ 1 and 0 or 'x' }}|{{ not true and false }}|{{ none or 'd' }}|{{ 0 and nope.x }}|{{ '' or "
     "[] or {} }}",
     "x|False|d|0|{}"},
    {"{{ 'yes' if b else 'no' }}|{{ 'yes' if z }}|{{ 1 if 0 else 2 if 0 else 3 }}", "yes||3"},
    {"{{ d.a }}|{{ d['b'] }}|{{ d.zz }}|{{ l[0] }}|{{ l[-1] }}|{{ l[9] }}|{{ d.C[1].x }}|{{ u.0.n "
     "}}|{{ s[1] }}|{{ em[0] }}",
     "2|1||3|2||None|x|\xc3\xa9|\xf0\x9f\x98\x80"},
    {"{{ \"abcdef\"[5:2:-1] }}|{{ [0,1,2,3,4,5][4:1:-1] }}|{{ s[1:4] }}|{{ s[::-1] }}|{{ s[-3:] "
     "}}|{{ l[::-1] }}|{{ range(9)[2:8:3]|list }}|{{ em[::-1] }}",
     "fed|[4, 3, 2]|\xc3\xa9ll|dlr\xc3\xb6w oll\xc3\xa9h|rld|[2, 1, 3]|[2, "
     "5]|\xc3\x9f\xf0\x9f\x98\x80"},
    {"{{ none }}|{{ true }}|{{ 1.0 }}|{{ 1e20 }}|{{ 1e15 }}|{{ 1e16 }}|{{ 0.0001 }}|{{ 0.00001 "
     "}}|{{ 1/3 }}|{{ [1,\"a\",none] }}|{{ {\"k\":\"v\"} }}|{{ (1,) }}|{{ () }}|{{ -0.0 }}|{{ 1e-7 "
     "}}",
     "None|True|1.0|1e+20|1000000000000000.0|1e+16|0.0001|1e-05|0.3333333333333333|[1, 'a', "
     "None]|{'k': 'v'}|(1,)|()|-0.0|1e-07"},
    {"{{ [\"it's\", 'a\"b', 'x\\ny\\t\\\\', '\xc3\xa9', '\\u200b', \"it's \\\"q\\\"\"] }}",
     "[\"it's\", 'a\"b', 'x\\ny\\t\\\\', '\xc3\xa9', '\\u200b', 'it\\'s \"q\"']"},
    {"{{ 1_000 + 0x1f + 0b11 + 0o17 }}|{{ 1.5e3 }}|{{ '\\x41\\u00e9\\101\\q' }}",
     "1049|1500.0|A\xc3\xa9"
     "A\\q"},
    {"{{ nope }}|{{ nope is defined }}|{{ nope|default('x') }}|{{ messages[5] is defined }}|{% for "
     "i in nope %}x{% endfor %}|{{ nope == nope2 }}|{{ [nope] }}",
     "|False|x|False||True|[Undefined]"},
    {"{{ ().__class__ }}|{{ ''.__class__ }}|{{ cycler.__init__ }}|{{ d.__init__ }}|{{ "
     "nope.__class__ }}",
     "||||"},
    {"{{ {'a': 1, 'b': {'c': 2}}['b']['c'] }}|{{ {1: 'x', 1.0: 'y', true: 'z'} }}|{{ {'a': 1, 'a': "
     "2} }}|{{ {(1, 2): 3}[(1, 2)] }}",
     "2|{1: 'z'}|{'a': 2}|3"},
    {"{{ dict(a=1, b=2) }}|{{ dict([('k', 1)]) }}|{{ dict(d, z=3).z }}|{{ range(3) }}|{{ range(1, "
     "7, 2)|list }}|{{ range(5, 0, -2)|list }}",
     "{'a': 1, 'b': 2}|{'k': 1}|3|range(0, 3)|[1, 3, 5]|[5, 3, 1]"},
    {"{{ '%s is %d or %.2f or %5s|%-5s|%05d|%x' % ('a', 3, 2.5, 'r', 'l', 42, 255) }}|{{ '%(k)s%%' "
     "% {'k': 1} }}|{{ '%s' % s }}",
     "a is 3 or 2.50 or     r|l    |00042|ff|1%|h\xc3\xa9llo w\xc3\xb6rld"},
    {"{{ '{} {1} {x}'.format('a', 'b', x=2) if false else '{0} {1} {x}'.format('a', 'b', x=2) "
     "}}|{{ '{:>5}|{:<5}|{:^5}|{:05d}|{:.2f}|{:,}'.format('r', 'l', 'c', 42, 2.5, 1234567) }}|{{ "
     "'{{}}'.format() }}",
     "a b 2|    r|l    |  c  |00042|2.50|1,234,567|{}"},
    {"{{ bos_token + \"x\" if bos_token is defined else \"nobos\" }}|{{ undefined_thing }}|{{ "
     "undefined_thing is defined }}",
     "nobos||False"},
    {"{{ range(3)|map('string')|join }}|{{ [1, 2,] }}|{{ {'a': 1,} }}|{{ 1, 2 }}|{{ (1, 2)[1] }}",
     "012|[1, 2]|{'a': 1}|(1, 2)|2"},
};

TEST(Language, Expressions) {
    check(std::begin(kExpressions), std::end(kExpressions));
}

constexpr Row kFilters[] = {
    {"{% for k, v in u|groupby('n') %}{{ k }}:{{ v|length }};{% endfor %}", "x:2;Y:1;"},
    {"{% for g in u|groupby('zz', default=0) %}{{ g.grouper }}-{{ g.list|length }}{% endfor %}",
     "0-3"},
    {"{{ m|abs }}|{{ 2.5|abs }}|{{ -2.5|abs }}|{{ (-2.5)|abs }}", "3|2.5|2.5|2.5"},
    {"{{ l|batch(2)|list }}|{{ l|batch(2, 'x')|list }}|{{ l|slice(2)|list }}|{{ l|slice(2, 0)|list "
     "}}",
     "[[3, 1], [2]]|[[3, 1], [2, 'x']]|[[3, 1], [2]]|[[3, 1], [2, 0]]"},
    {"{{ s|capitalize }}|{{ '\xc3\x80"
     "B cD'|capitalize }}|{{ \"it's a-b (cd) [ef\"|title }}|{{ s|upper }}|{{ "
     "'\xc3\x80\xc3\x89\xc3\x9f'|lower }}|{{ '\xc3\x9f'|upper }}",
     "H\xc3\xa9llo w\xc3\xb6rld|\xc3\x80"
     "b cd|It's A-B (Cd) [Ef|H\xc3\x89LLO W\xc3\x96RLD|\xc3\xa0\xc3\xa9\xc3\x9f|SS"},
    {"{{ 'ab'|center(7) }}|{{ 'abc'|center(6) }}|{{ l|count }}|{{ s|length }}|{{ em|length }}|{{ "
     "d|length }}|{{ nope|length }}",
     "   ab  | abc  |3|11|2|3|0"},
    {"{{ nope|d('x') }}|{{ e|default('x') }}|{{ e|default('x', true) }}|{{ nope|default }}|{{ "
     "z|default('x', boolean=true) }}",
     "x||x||x"},
    {"{{ d|dictsort }}|{{ {'b': 1, 'a': 2}|dictsort(by='value') }}|{{ d|dictsort(true) }}|{{ {'b': "
     "1, 'a': 2}|dictsort(reverse=true) }}",
     "[('a', 2), ('b', 1), ('C', [1, {'x': None}])]|[('b', 1), ('a', 2)]|[('C', [1, {'x': None}]), "
     "('a', 2), ('b', 1)]|[('b', 1), ('a', 2)]"},
    {"{{ '<a href=\"x\">&\\'</a>'|e }}|{{ '<'|escape|e }}|{{ '<b>'|safe + '<i>' }}|{{ "
     "'<'|forceescape }}|{{ ['<'|e] }}",
     "&lt;a href=&#34;x&#34;&gt;&amp;&#39;&lt;/a&gt;|&lt;|<b>&lt;i&gt;|&lt;|[Markup('&lt;')]"},
    {"{{ l|first }}|{{ l|last }}|{{ []|first }}|{{ 'abc'|last }}|{{ d|first }}", "3|2||c|b"},
    {"{{ '2.5'|float }}|{{ 'x'|float }}|{{ 'x'|float(1.5) }}|{{ 3|float }}|{{ '1e3'|float }}",
     "2.5|0.0|1.5|3.0|1000.0"},
    {"{{ '%s-%d'|format('a', 2) }}|{{ '%(a)s'|format(a=1) }}", "a-2|1"},
    {"{{ 'a\\nb\\n\\nc'|indent }}|{{ 'a\\nb'|indent(2, true) }}|{{ 'a\\n\\nb'|indent(width='>', "
     "blank=true) }}",
     "a\n    b\n\n    c|  a\n  b|a\n>\n>b"},
    {"{{ '42'|int }}|{{ 'x'|int }}|{{ 'x'|int(7) }}|{{ '0x1f'|int(0, 16) }}|{{ 2.9|int }}|{{ "
     "'2.9'|int }}|{{ true|int }}|{{ ' 7 '|int }}|{{ none|int(3) }}",
     "42|0|7|31|2|2|1|7|3"},
    {"{{ d|items|list }}|{{ nope|items|list }}|{{ l|join }}|{{ l|join(', ') }}|{{ u|join('/', "
     "attribute='n') }}|{{ ''|join(',') }}",
     "[('b', 1), ('a', 2), ('C', [1, {'x': None}])]|[]|312|3, 1, 2|x/Y/x|"},
    {"{{ 'abc'|list }}|{{ d|list }}|{{ (1, 2)|list }}|{{ w|map('upper')|list }}|{{ "
     "u|map(attribute='n')|list }}|{{ u|map(attribute='q', default='Z')|list }}|{{ "
     "l|map('string')|map('length')|sum }}",
     "['a', 'b', 'c']|['b', 'a', 'C']|[1, 2]|['B', 'A', 'C', 'A']|['x', 'Y', 'x']|['Z', None, "
     "'Z']|3"},
    {"{{ l|max }}|{{ l|min }}|{{ w|max }}|{{ w|min(case_sensitive=true) }}|{{ "
     "(u|max(attribute='v')).v }}|{{ []|max }}",
     "3|1|c|A|3|"},
    {"{{ l|select('odd')|list }}|{{ l|reject('odd')|list }}|{{ [0, 1, '']|select|list }}|{{ [0, 1, "
     "'']|reject|list }}|{{ l|select('gt', 1)|list }}",
     "[3, 1]|[2]|[1]|[0, '']|[3, 2]"},
    {"{{ u|selectattr('n', 'equalto', 'x')|map(attribute='v')|list }}|{{ u|rejectattr('q', "
     "'defined')|list|length }}|{{ u|selectattr('v')|list|length }}|{{ u|rejectattr('n', 'in', "
     "['x'])|list }}",
     "[1, 3]|2|3|[{'n': 'Y', 'v': 2, 'q': None}]"},
    {"{{ 'aaa'|replace('a', 'b') }}|{{ 'aaa'|replace('a', 'b', 2) }}|{{ 'ab'|replace('', '-') "
     "}}|{{ 12|replace(1, 'x') }}",
     "bbb|bba|-a-b-|x2"},
    {"{{ s|reverse }}|{{ l|reverse|list }}|{{ 2.5|round }}|{{ 3.5|round }}|{{ 2.675|round(2) }}|{{ "
     "2.71|round(1, 'ceil') }}|{{ 2.79|round(1, 'floor') }}|{{ 7|round }}|{{ 42.55|round|int }}",
     "dlr\xc3\xb6w oll\xc3\xa9h|[2, 1, 3]|2.0|4.0|2.67|2.8|2.7|7|43"},
    {"{{ l|sort }}|{{ w|sort }}|{{ w|sort(case_sensitive=true) }}|{{ l|sort(reverse=true) }}|{{ "
     "u|sort(attribute='n,v', reverse=true)|map(attribute='v')|list }}",
     "[1, 2, 3]|['A', 'a', 'b', 'c']|['A', 'a', 'b', 'c']|[3, 2, 1]|[2, 3, 1]"},
    {"{{ 1|string ~ none|string }}|{{ l|sum }}|{{ u|sum(attribute='v') }}|{{ l|sum(start=10) }}|{{ "
     "[]|sum }}",
     "1None|6|6|16|0"},
    {"{{ x|tojson }}",
     "{\"b\": 1, \"a\": \"T > 10 & <5 (user's) \xc3\xa9\xf0\x9f\x98\x80\", \"n\": null, \"t\": "
     "true, \"f\": 1.0, \"l\": [1, []], \"o\": {}}"},
    {"{{ y|tojson(indent=2) }}|{{ y|tojson(separators=(\",\",\":\"), sort_keys=true) }}|{{ "
     "\"\xc3\xa9\xf0\x9f\x98\x80\"|tojson(ensure_ascii=true) }}|{{ []|tojson(indent=2) }}|{{ {1: "
     "2, none: 3, true: 4, 1.5: 5}|tojson }}|{{ '\\x7f\\x1f</'|tojson }}|{{ (1, 2)|tojson }}|{{ "
     "[{}]|tojson(indent='-') }}",
     "{\n  \"b\": [\n    1,\n    2\n  ],\n  \"a\": {\n    \"z\": 1\n  "
     "}\n}|{\"a\":{\"z\":1},\"b\":[1,2]}|\"\\u00e9\\ud83d\\ude00\"|[]|{\"1\": 4, \"null\": 3, "
     "\"1.5\": 5}|\"\x7f\\u001f</\"|[1, 2]|[\n-{}\n]"},
    {"{{ '  x '|trim }}|{{ 'xxaxx'|trim('x') }}|{{ '\\u00a0x\\u2003'|trim }}|{{ 5|trim }}",
     "x|a|x|5"},
    {"{{ 'foo bar baz qux'|truncate(9) }}|{{ 'foo bar baz qux'|truncate(9, True) }}|{{ 'foo bar "
     "baz qux'|truncate(11) }}|{{ 'foo bar baz qux'|truncate(11, False, '...', 0) }}",
     "foo...|foo ba...|foo bar baz qux|foo bar..."},
    {"{{ ['a', 'A', 'b', 'a']|unique|list }}|{{ [1, 1.0, true, 2]|unique|list }}|{{ "
     "u|unique(attribute='n')|list|length }}",
     "['a', 'b']|[1, 2]|2"},
    {"{{ 'a b/\xc3\xa9?'|urlencode }}|{{ {'k 1': 'v/2', 'x': 3}|urlencode }}|{{ 'a b-c "
     "d_e'|wordcount }}|{{ u|map(attribute='n')|map('lower')|unique|join }}",
     "a%20b/%C3%A9%3F|k+1=v%2F2&x=3|4|xy"},
    {"{{ d|attr('x') }}|{{ 'a'|attr('upper') is defined }}|{{ "
     "messages|selectattr(\"role\",\"equalto\",\"user\")|map(attribute=\"content\")|join(\" / \") "
     "}}",
     "|True|a / c"},
};

TEST(Language, Filters) {
    check(std::begin(kFilters), std::end(kFilters));
}

constexpr Row kTests[] = {
    {"{{ b is boolean }}{{ 1 is boolean }}|{{ true is true }}{{ 1 is true }}|{{ false is false "
     "}}{{ 0 is false }}|{{ 1 is integer }}{{ true is integer }}{{ 1.0 is integer }}|{{ 1.0 is "
     "float }}{{ 1 is float }}|{{ 1 is number }}{{ true is number }}{{ 'a' is number }}",
     "TrueFalse|TrueFalse|TrueFalse|TrueFalseFalse|TrueFalse|TrueTrueFalse"},
    {"{{ nope is defined }}{{ b is defined }}|{{ nope is undefined }}{{ d.q is undefined }}|{{ z "
     "is none }}{{ nope is none }}{{ 0 is none }}",
     "FalseTrue|TrueTrue|TrueFalseFalse"},
    {"{{ 'a' is string }}{{ 1 is string }}|{{ d is mapping }}{{ l is mapping }}|{{ l is sequence "
     "}}{{ 'a' is sequence }}{{ d is sequence }}{{ 1 is sequence }}{{ range(2) is sequence }}|{{ l "
     "is iterable }}{{ 1 is iterable }}{{ none is iterable }}{{ d.items() is iterable }}|{{ range "
     "is callable }}{{ 1 is callable }}{{ ''.upper is callable }}",
     "TrueFalse|TrueFalse|TrueTrueTrueFalseTrue|TrueFalseFalseTrue|TrueFalseTrue"},
    {"{{ 1 is eq(1) }}{{ 1 is equalto 2 }}{{ 1 is ne 1 }}|{{ 1 is lt 2 }}{{ 1 is gt(2) }}{{ 1 is "
     "le 1 }}{{ 1 is ge 2 }}|{{ 1 is lessthan 2 }}{{ 1 is greaterthan 2 }}",
     "TrueFalseFalse|TrueFalseTrueFalse|TrueFalse"},
    {"{{ 1 is in [1] }}{{ 'x' is in 'abc' }}{{ 'b' is not in d }}|{{ 3 is odd }}{{ 3 is even }}{{ "
     "4 is even }}{{ -3 is odd }}|{{ 9 is divisibleby 3 }}{{ 9 is divisibleby(2) }}|{{ 'ab' is "
     "lower }}{{ 'aB' is lower }}{{ 'AB' is upper }}{{ '1' is upper }}",
     "TrueFalseFalse|TrueFalseTrueTrue|TrueFalse|TrueFalseTrueFalse"},
    {"{{ none is sameas none }}{{ l is sameas l }}{{ [1] is sameas [1] }}|{{ 'upper' is filter "
     "}}{{ 'nix' is filter }}{{ 'odd' is test }}|{{ '<'|e is escaped }}{{ '<' is escaped }}|{{ z "
     "is not none }}{{ not z is none }}{{ 1 is not string and 2 is number }}",
     "TrueTrueFalse|TrueFalseTrue|TrueFalse|FalseFalseTrue"},
};

TEST(Language, Tests) {
    check(std::begin(kTests), std::end(kTests));
}

constexpr Row kMethods[] = {
    {"{{ \"  x \".strip() }}|{{ \"xxaxx\".strip('x') }}|{{ \" a \".lstrip() }}|{{ \" a \".rstrip() "
     "}}|{{ 'abcba'.lstrip('ab') }}",
     "x|a|a | a|cba"},
    {"{{ \"a,b,,c\".split(\",\") }}|{{ \" a  b \".split() }}|{{ \"a,b,c\".split(\",\", 1) }}|{{ "
     "\"a,b,c\".rsplit(\",\", 1) }}|{{ \" a b c \".split(none, 1) }}|{{ \" a b c \".rsplit(none, "
     "1) }}|{{ ''.split() }}|{{ ''.split(',') }}|{{ \"a,b\".split(\",\")[-1] }}",
     "['a', 'b', '', 'c']|['a', 'b']|['a', 'b,c']|['a,b', 'c']|['a', 'b c ']|[' a b', "
     "'c']|[]|['']|b"},
    {"{{ \"a\\nb\\r\\nc\\n\".splitlines() }}|{{ \"a\\nb\".splitlines(true) }}|{{ "
     "'a=b=c'.partition('=') }}",
     "['a', 'b', 'c']|['a\\n', 'b']|('a', '=', 'b=c')"},
    {"{{ \"abc\".startswith(\"ab\") }}|{{ \"abc\".endswith((\"x\", \"bc\")) }}|{{ "
     "\"abc\".startswith(\"b\", 1) }}|{{ \"abc\".endswith(\"b\", 0, 2) }}",
     "True|True|True|True"},
    {"{{ \"aaa\".replace(\"a\", \"b\", 2) }}|{{ '\xc3\xa9"
     "a'.upper() }}|{{ '\xc3\x89"
     "A'.lower() }}|{{ \"it's a\".title() }}|{{ 'hELLO'.capitalize() }}",
     "bba|\xc3\x89"
     "A|\xc3\xa9"
     "a|It'S A|Hello"},
    {"{{ 'h\xc3\xa9llo'.find('l') }}|{{ 'h\xc3\xa9llo'.rfind('l') }}|{{ 'abc'.find('z') }}|{{ "
     "'abc'.index('c') }}|{{ 'banana'.count('an') }}|{{ 'abc'.find('') }}|{{ 'aXbX'.find('X', 2) "
     "}}",
     "2|3|-1|2|2|0|3"},
    {"{{ ', '.join(['a', 'b']) }}|{{ '12'.isdigit() }}{{ 'a1'.isdigit() }}|{{ 'ab'.isalpha() }}|{{ "
     "'a1'.isalnum() }}|{{ ' \\t'.isspace() }}|{{ 'AB'.isupper() }}|{{ 'ab1'.islower() }}|{{ "
     "''.isdigit() }}",
     "a, b|TrueFalse|True|True|True|True|True|False"},
    {"{{ '7'.zfill(3) }}|{{ '-7'.zfill(4) }}|{{ 'a'.center(4, '*') }}|{{ 'a'.ljust(3) }}|{{ "
     "'a'.rjust(3, '.') }}|{{ 'prefix'.removeprefix('pre') }}|{{ 'a.txt'.removesuffix('.txt') }}",
     "007|-007|*a**|a  |..a|fix|a"},
    {"{{ d.get('a') }}|{{ d.get('zz') }}|{{ d.get('zz', 7) }}|{{ {'a': 1}.items() }}|{{ {'a': "
     "1}.keys() }}|{{ {'a': 1}.values() }}|{{ d.copy() == d }}|{{ d.keys()|list }}|{{ "
     "d.values()|list|length }}",
     "2|None|7|dict_items([('a', 1)])|dict_keys(['a'])|dict_values([1])|True|['b', 'a', 'C']|3"},
    {"{{ l.index(2) }}|{{ l.count(1) }}|{{ (1, 2, 1).count(1) }}|{{ l.copy() }}|{{ {'items': "
     "5}['items'] }}|{{ {'items': 5}.items() }}",
     "2|1|2|[3, 1, 2]|5|dict_items([('items', 5)])"},
    {"{% for k,v in {'b': 1, 'a': 2}.items() %}{{ k }}={{ v }};{% endfor %}|{{ {'b': 1, 'a': "
     "2}|dictsort }}",
     "b=1;a=2;|[('a', 2), ('b', 1)]"},
    {"{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}{{ "
     "c.reset() }}{{ c.next() }}|{% set j = joiner('; ') %}{{ j() }}a{{ j() }}b{{ j() }}c",
     "ababNonea|a; b; c"},
};

TEST(Language, Methods) {
    check(std::begin(kMethods), std::end(kMethods));
}

constexpr Row kStatements[] = {
    {"{% for i in range(5) %}{% if i==3 %}{% break %}{% endif %}{{ i }}{% endfor %}", "012"},
    {"{% for i in range(5) %}{% if i==1 %}{% continue %}{% endif %}{{ i }}{% endfor %}", "0234"},
    {"{% generation %}x{% endgeneration %}", "x"},
    {"{{ strftime_now('%Y-%m-%d %d %b %Y') }}", "2026-01-02 02 Jan 2026"},
    {"{% set ns = namespace(n=0) %}{% for m in [1,2,3] %}{% set ns.n = ns.n + m %}{% endfor %}{{ "
     "ns.n }}",
     "6"},
    {"{% macro f(a,b=2) %}{{ a }}-{{ b }}{% endmacro %}{{ f(1) }} {{ f(1,b=3) }}", "1-2 1-3"},
    {"{% for x in [1,2,3] %}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.previtem }}{{ "
     "loop.nextitem }};{% endfor %}",
     "0TrueFalse2;1FalseFalse13;2FalseTrue2;"},
    {"{% for m in messages[::-1] %}{{ m.content }},{% endfor %}", "c,b,a,"},
    {"{% for i in [1,2,3] if i != 2 %}{{ i }}/{{ loop.length }}{{ loop.revindex }}{{ "
     "loop.revindex0 }} {% else %}none{% endfor %}",
     "1/221 3/210 "},
    {"{% for i in [] %}x{% else %}empty{% endfor %}", "empty"},
    {"{% for i in [1,1,2] %}{{ loop.changed(i) }}{{ loop.cycle('a','b') }}{% endfor %}",
     "TrueaFalsebTruea"},
    {"{% for i in [1,[2,[3]]] recursive %}{{ loop.depth }}{{ loop.depth0 }}{% if i is iterable "
     "%}({{ loop(i) }}){% else %}{{ i }}{% endif %}{% endfor %}",
     "10110(21221(323))"},
    {"{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}", "123"},
    {"{% set x = 1 %}{% for i in [1,2] %}{{ x }}{% set x = i + 5 %}{{ x }}{% endfor %}{{ x }}",
     "16171"},
    {"{% if false %}{% elif b %}elif{% else %}else{% endif %}", "elif"},
    {"{% set a, b = 1, 2 %}{{ a }}{{ b }}", "12"},
    {"{% set x %}a{{ 1 }}b{% endset %}{{ x }}|{% set x | upper | trim %} q {% endset %}{{ x }}",
     "a1b|Q"},
    {"{% filter upper %}a{{ 'b' }}{% endfilter %}", "AB"},
    {"{% with a=1, b=2 %}{{ a + b }}{% endwith %}{{ a }}", "3"},
    {"{% macro m() %}[{{ caller('p') }}]{% endmacro %}{% call(x) m() %}{{ x }}q{% endcall %}",
     "[pq]"},
    {"{% macro m(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, 3, k=4) }}",
     "1(2, 3){'k': 4}"},
    {"{% macro f(n) %}{% if n > 0 %}{{ n }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}",
     "321"},
    {"{% macro f() %}{{ x }}{% endmacro %}{% set x = 1 %}{{ f() }}", "1"},
    {"{% raw %}{{ x }}{% if %}{% endraw %}", "{{ x }}{% if %}"},
    {"{# c {{ x }} #}a{#- b -#} c", "ac"},
    {"  {% if true %}\n  a\n  {% endif %}\nb\n", "  a\nb"},
    {"a\n  {%- if true -%}\n b\n {%- endif -%}\n c", "abc"},
    {"a\n  {%+ if true +%}\nb\n{%+ endif %}\nc", "a\n  \nb\nc"},
    {"  {{ 1 }}  \n  {{- 2 -}}  \n3\n", "  123"},
    {"x\n\n", "x\n"},
    {"{# c #}\nx", "x"},
    {"  {# c #}\n  x {# d #}\n", "  x "},
    {"a {%- raw -%} b {%- endraw -%} c", "abc"},
    {"  {% raw %}\n x\n  {% endraw %}\ny", "\n x\ny"},
    {"a\r\nb\rc\r\n{% if true %}\r\nd{% endif %}", "a\nb\nc\nd"},
    {"{% set ns = namespace(a=1) %}{% set ns.b = ns.a ~ 'z' %}{{ ns.b }}{{ ns.q is defined }}{{ ns "
     "}}",
     "1zFalse<Namespace {'a': 1, 'b': '1z'}>"},
    {"{% for c in 'h\xc3\xa9y' %}{{ c }}.{% endfor %}", "h.\xc3\xa9.y."},
    {"{% for i in 'ab' %}{% for j in 'xy' %}{{ loop.index }}{{ i }}{{ j }}{% if j == 'x' %}{% "
     "continue %}{% endif %}|{% endfor %}{{ loop.index }}{% endfor %}",
     "1ax2ay|11bx2by|2"},
    {"{% if false %}{{ 1|nosuchfilter }}{% endif %}ok", "ok"},
    {"{{ {'a': {'b': 1}} }}", "{'a': {'b': 1}}"},
    {"{%set x=1%}{{x}}{%if x%}y{%endif%}", "1y"},
    {"{% for m in messages if m.role == 'user' %}{{ m.content }}{% if not loop.last %},{% endif "
     "%}{% endfor %}",
     "a,c"},
    {"{% macro f(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ f(1) }}{{ f('x', 'y') }}{{ f() }}",
     "11xy"},
};

TEST(Language, Statements) {
    check(std::begin(kStatements), std::end(kStatements));
}

// Errors while rendering, as in Python; each message is one line that names its place.
TEST(Language, FailsWhilePythonFails) {
    const char* const kSources[] = {
        "{{ nope.x }}",
        "{{ nope.x.y }}",
        "{{ nope['x'] }}",
        "{{ nope() }}",
        "{{ nope + 1 }}",
        "{{ nope|int }}",
        "{{ nope|tojson }}",
        "{{ 1 + 'a' }}",
        "{{ 'a' + 1 }}",
        "{{ l.append(1) }}",
        "{{ d.update({}) }}",
        "{{ d.pop('a') }}",
        "{{ raise_exception('stop here') }}",
        "{{ 1 < 'a' }}",
        "{{ none < 1 }}",
        "{{ 1 in 5 }}",
        "{{ 1 in 'abc' }}",
        "{{ {[]: 1} }}",
        "{{ 'abc'.index('z') }}",
        "{{ [1].index(5) }}",
        "{% for i in 5 %}{% endfor %}",
        "{% set a, b = [1] %}",
        "{% set l.x = 1 %}",
        "{{ 'a'.nosuch() }}",
        "{{ 5|length }}",
        "{{ range(1, 2, 0) }}",
        "{% macro f(a) %}{% endmacro %}{{ f(1, 2) }}",
        "{% macro f(a) %}{% endmacro %}{{ f(b=1) }}",
        "{{ 'a'|indent(1, 2, 3, 4) }}",
        "{{ ['a', 1]|sort }}",
        "{{ ''.split('') }}",
        "{{ ','.join([1]) }}",
        "{{ '%d' % 'a' }}",
        "{{ '%s %s' % 'a' }}",
        "{{ '{}'.format() }}",
        "{{ u|map('nosuch')|list }}",
        "{{ u|select('nosuch')|list }}",
        "{{ d.items()[0].x }}",
        "{{ 0 ** -1 }}",
        "{{ -x }}",
        "{{ l[:'a'] }}",
    };
    const Json context = json(kContext);
    for (const char* source : kSources) {
        const auto parsed = ChatTemplate::parse(source);
        ASSERT_TRUE(parsed.ok()) << source << ": " << parsed.error().message;
        const Result<Rendered> rendered = (*parsed)->render(context, kClock);
        ASSERT_FALSE(rendered.ok()) << source << " gives " << rendered->text;
        EXPECT_EQ(rendered.error().status, Status::BadRequest) << source;
        EXPECT_NE(rendered.error().message.find("line 1, column "), std::string::npos) << source;
        EXPECT_EQ(rendered.error().message.find('\n'), std::string::npos) << source;
    }
    EXPECT_EQ(render("a\n {{ raise_exception('only user allowed') }}"),
              "ERROR template, line 2, column 20: only user allowed");
}

// What is no template at all.
TEST(Language, RefusesBrokenSource) {
    const char* const kSources[] = {
        "{% if x",
        "{{ x",
        "{{ }}",
        "{% if x %}",
        "{% for x %}{% endfor %}",
        "{% endif %}",
        "{% nosuch %}",
        "{% include 'x' %}",
        "{% import 'x' as y %}",
        "{% extends 'x' %}",
        "{{ x|nosuch }}",
        "{{ x is nosuch }}",
        "{{ 'abc }}",
        "{# open",
        "{% raw %}x",
        "{{ (1 }}",
        "{{ 1) }}",
        "{{ [1} }}",
        "{% break %}",
        "{% continue %}",
        "{% set true = 1 %}",
        "{% for loop in x %}{% endfor %}",
        "{{ a b }}",
        "{{ 1 is odd is even }}",
        "{{ f(a=1, 2) }}",
        "{% macro f(a=1, b) %}{% endmacro %}",
        "{% call x %}{% endcall %}",
        "{{ ! }}",
        "{{ a.b. }}",
        "{% %}",
        "{{ {1} }}",
        "{{ '\\x4' }}",
        "{{ '\\u12' }}",
        "{% if a %}{% else %}{% elif b %}{% endif %}",
        "{% block x %}",
        "{{ 99999999999999999999 }}",
    };
    for (const char* source : kSources) {
        const auto parsed = ChatTemplate::parse(source);
        ASSERT_FALSE(parsed.ok()) << source;
        EXPECT_EQ(parsed.error().status, Status::BadFile) << source;
        EXPECT_NE(parsed.error().message.find("line 1, column "), std::string::npos) << source;
    }
    EXPECT_EQ(render("ab\n\xc3\xa9 {% frob %}"),
              "ERROR template, line 2, column 6: unknown tag 'frob'");
}

}  // namespace
}  // namespace nib::test

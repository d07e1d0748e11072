// SPDX-License-Identifier: MIT
#include "src/option_help.h"

#include <algorithm>
#include <cctype>

namespace nib {
namespace {

constexpr size_t kTextColumn = 32;

std::vector<std::string> words(std::string_view text) {
    std::vector<std::string> out;
    while (!text.empty()) {
        const size_t end = std::min(text.find(' '), text.size());
        if (end > 0) out.emplace_back(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return out;
}

// "  -c, --ctx-size N              text (default: 0)" and a line with the variable.
std::string flag_help(const FlagRow& row) {
    std::string left = "  ";
    std::vector<std::string> names = flag_names(row);
    // Short names stand before the long one.
    std::stable_sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
        return a.rfind("--", 0) != 0 && b.rfind("--", 0) == 0;
    });
    for (size_t i = 0; i < names.size(); ++i)
        left += (i > 0 ? ", " : "") + names[i];
    if (!row.stands_alone()) left.append(" ").append(row.arg);
    if (left.size() + 2 > kTextColumn) {
        left += "\n" + std::string(kTextColumn, ' ');
    } else {
        left.resize(kTextColumn, ' ');
    }
    std::string text = left + row.help;
    if (!row.default_text.empty()) text += " (default: " + row.default_text + ")";
    return text + "\n" + std::string(kTextColumn, ' ') + "(env: " + environment_name(row) + ")\n";
}

std::string section_help(const char* title, FlagSection section, uint32_t flags) {
    std::string text;
    for (const FlagRow& row : all_flags()) {
        if (row.section == section && (row.sets & flags)) text += flag_help(row);
    }
    return text.empty() ? text : std::string("\n") + title + ":\n" + text;
}

size_t edits(std::string_view a, std::string_view b) {
    std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
    for (size_t i = 0; i <= a.size(); ++i)
        d[i][0] = i;
    for (size_t j = 0; j <= b.size(); ++j)
        d[0][j] = j;
    for (size_t i = 1; i <= a.size(); ++i) {
        for (size_t j = 1; j <= b.size(); ++j) {
            const size_t change = a[i - 1] == b[j - 1] ? 0 : 1;
            d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + change});
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
            }
        }
    }
    return d[a.size()][b.size()];
}

}  // namespace

const CommandDef* find_command(std::string_view name) {
    for (const CommandDef* command : all_commands()) {
        if (name == command->name) return command;
        for (const std::string& alias : words(command->aliases)) {
            if (name == alias) return command;
        }
    }
    return nullptr;
}

std::vector<std::string> flag_names(const FlagRow& row) {
    std::vector<std::string> names = {"--" + std::string(row.name)};
    for (std::string& alias : words(row.aliases))
        names.push_back(std::move(alias));
    return names;
}

std::string environment_name(const FlagRow& row) {
    std::string name = "NIB_";
    for (const char c : std::string_view(row.name)) {
        name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    }
    return name;
}

std::string program_help() {
    std::string text =
        "usage: nib COMMAND [FLAGS] [ARGUMENTS]\n\nnib runs language models on this machine.\n\n"
        "commands:\n";
    for (const CommandDef* command : all_commands()) {
        std::string left = "  " + std::string(command->name);
        left.resize(std::max<size_t>(left.size() + 1, 14), ' ');
        text += left + command->summary + "\n";
    }
    return text +
           "\n  nib COMMAND --help      the flags of a command\n"
           "  nib --help all          the flags of all commands\n"
           "  nib --version           version and build\n"
           "  nib completions bash    completion for bash\n"
           "\nexit codes: 0 fine, 1 the run failed, 2 wrong usage or input file\n";
}

std::string command_help(const CommandDef& command) {
    std::string text = "usage: nib " + std::string(command.name) + " [FLAGS]";
    if (command.usage[0] != '\0') text += std::string(" ") + command.usage;
    text += "\n\n" + std::string(command.summary) + "\n";
    text += section_help("command", FlagSection::Command, command.flags);
    text += section_help("common", FlagSection::Common, command.flags);
    text += section_help("sampling", FlagSection::Sampling, command.flags);
    return text + "\nA flag beats its environment variable (env), which beats the default.\n";
}

std::string full_help() {
    std::string text = program_help();
    text += section_help("common", FlagSection::Common, ~0u);
    text += section_help("sampling", FlagSection::Sampling, ~0u);
    for (const CommandDef* command : all_commands()) {
        const std::string title = "nib " + std::string(command->name) + " " + command->usage;
        text += section_help(title.c_str(), FlagSection::Command, command->flags);
    }
    return text;
}

std::string bash_completion() {
    std::string commands = "completions", cases;
    for (const CommandDef* command : all_commands()) {
        commands += " " + std::string(command->name);
        std::string flags = "--help";
        for (const FlagRow& row : all_flags()) {
            if (!(row.sets & command->flags)) continue;
            for (const std::string& name : flag_names(row))
                flags += " " + name;
        }
        cases += "    " + std::string(command->name);
        for (const std::string& alias : words(command->aliases))
            cases += "|" + alias;
        cases += ") words=\"" + flags + "\" ;;\n";
    }
    return "# bash completion for nib: source <(nib completions bash)\n"
           "_nib() {\n"
           "    local word=\"${COMP_WORDS[COMP_CWORD]}\" words=\"\"\n"
           "    COMPREPLY=()\n"
           "    if ((COMP_CWORD == 1)); then\n"
           "        COMPREPLY=($(compgen -W \"" +
           commands +
           " --help --version\" -- \"$word\"))\n"
           "        return\n"
           "    fi\n"
           "    [[ $word == -* ]] || return 0\n"
           "    case \"${COMP_WORDS[1]}\" in\n" +
           cases +
           "    esac\n"
           "    COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
           "}\n"
           "complete -o default -F _nib nib\n";
}

std::string nearest(std::string_view name, std::span<const std::string> known) {
    constexpr size_t kLongest = 64;  // nobody mistypes more than that; bounds the work
    std::string best;
    if (name.size() > kLongest) return best;
    // One edit for every third letter: "-ngl" is not near "-l", "--ctx-sized" is near "--ctx-size".
    const size_t letters = name.size() - std::min(name.find_first_not_of('-'), name.size());
    size_t fewest = std::max<size_t>(1, letters / 3) + 1;
    for (const std::string& candidate : known) {
        const size_t n = edits(name, candidate);
        if (n < fewest) {
            fewest = n;
            best = candidate;
        }
    }
    return best;
}

}  // namespace nib

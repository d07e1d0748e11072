# A file as a string of the program: nib_embed(OUT FUNCTION FILE) writes a .cpp that defines
#   std::string_view nib::FUNCTION();
# again whenever the file changes. Bytes are written as numbers: no quoting, no limit of literals.
function(nib_embed out function file)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    file(READ ${file} hex HEX)
    string(REGEX REPLACE "(................................)" "\\1\n" hex "${hex}")
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
    file(GENERATE OUTPUT ${out} CONTENT "// Written by cmake/Embed.cmake.\n#include <string_view>\n\nnamespace nib {\nstd::string_view ${function}();\nstd::string_view ${function}() {\n    static const unsigned char bytes[] = {\n${bytes}\n    };\n    return {reinterpret_cast<const char*>(bytes), sizeof bytes};\n}\n}  // namespace nib\n")
endfunction()

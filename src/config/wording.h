// Defines how values appear in messages: short, and without characters that a
// terminal would act on, since a configuration may come from anywhere.
//
//   c10::str("got ", in_quotes(text), ", expected ", either(words))
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace zero::config {

// At most about 60 characters of it, control characters as \x1b. The text is
// UTF-8; where that is not known, `ascii_only` escapes everything else.
std::string printable(std::string_view text, bool ascii_only = false);

// The same between quotation marks.
std::string in_quotes(std::string_view text);

// As few digits as read back as the same number.
std::string shown(double number);

// "a", "a or b", "a, b or c"
std::string either(const std::vector<std::string>& words);

std::vector<std::string> split(std::string_view words); // at spaces

std::string lower_case(std::string_view text); // of ASCII letters

} // namespace zero::config

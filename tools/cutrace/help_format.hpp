// SPDX-License-Identifier: Apache-2.0
// How the help of all commands looks: as wide as a terminal's usual 100 columns, each list of choices once, and a
// usage that may show what stands behind "--", which CLI11 does not know.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cutrace/base/write_all.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cutrace_tool {

class help_format : public CLI::Formatter {
 public:
  /// `usage`: the whole line; empty: CLI11's own.
  explicit help_format(std::string usage = {}) : usage_(std::move(usage)) { column_width(28); }

  std::string make_usage(const CLI::App* app, std::string name) const override {
    return usage_.empty() ? CLI::Formatter::make_usage(app, name) : "Usage: " + usage_ + "\n";
  }

  std::string make_option(const CLI::Option* option, bool positional) const override {
    std::string text = "  " + option->get_name(positional, true) + " " + option->get_type_name();
    const std::size_t to_output = text.find("{-}");  // CLI11's form of a switch that may take a file
    if (to_output != std::string::npos) text.replace(to_output, 3, "[=FILE]");
    const std::string indent(get_column_width(), ' ');
    if (text.size() >= indent.size()) text += "\n" + indent;
    text.resize(std::max(text.size(), indent.size()), ' ');
    std::size_t column = indent.size();
    const std::string& description = option->get_description();
    for (std::size_t at = 0; at < description.size();) {
      const std::size_t end = std::min(description.find(' ', at), description.size());
      const std::string word = description.substr(at, end - at);
      const bool first = column == indent.size();
      if (!first && column + 1 + word.size() > width) {
        text += "\n" + indent;
        column = indent.size();
      } else if (!first) {
        text += " ";
        ++column;
      }
      text += word;
      column += word.size();
      at = end + 1;
    }
    return text + "\n";
  }

 private:
  static constexpr std::size_t width = 100;
  std::string usage_;
};

/// Accepts one of these words. It has no description: the option's type name lists them in the help already.
inline CLI::Validator one_of(std::initializer_list<std::string> words) {
  CLI::Validator v = CLI::IsMember(std::vector<std::string>(words));
  return v.description("");
}

/// A number of these bounds. CLI11's Range takes nan, which is neither below nor above a bound.
inline CLI::Validator number_within(double least, double most) {
  const CLI::Range range(least, most);
  return CLI::Validator(
      [range](std::string& word) {
        double n = 0;
        return CLI::detail::lexical_cast(word, n) && std::isnan(n) ? word + " is no number" : range(word);
      },
      range.get_description());
}

/// Refuses the empty word that "$UNSET" leaves: it would be taken for a zero, or for an option that was not given.
inline CLI::Validator not_empty() {
  return CLI::Validator([](const std::string& word) { return std::string(word.empty() ? "the value is empty" : ""); },
                        "");
}

/// The number of a process.
inline CLI::Validator process_number() {
  return CLI::Validator(
      [](const std::string& word) {
        int n = 0;
        const bool known = CLI::detail::lexical_cast(word, n) && n > 0;
        return known ? std::string() : "\"" + word + "\" is no number of a process";
      },
      "");
}

/// What `app` is called by.
inline std::string called_by(const CLI::App& app) {
  return app.get_parent() == nullptr ? "cutrace" : "cutrace " + app.get_name();
}

/// Says of a word that `app` does not know what may have been meant.
inline std::string about_unknown_word(const CLI::App& app, const std::string& typed) {
  std::string word = typed.substr(0, typed.find('='));
  std::vector<std::string> known;
  const bool option = word[0] == '-';
  const std::string called = called_by(app);
  if (option) {
    for (const CLI::Option* o : app.get_options())
      for (const std::string& name : o->get_lnames()) known.push_back("--" + name);
  } else {
    for (const CLI::App* command : app.get_subcommands({}))
      if (!command->get_group().empty()) known.push_back(command->get_name());
  }
  std::string text = option          ? called + " has no option " + word
                     : known.empty() ? called + " takes no \"" + word + "\""
                                     : "there is no command \"" + word + "\"";
  const std::string_view meant =
      cutrace::detail::nearest_word(word, std::vector<std::string_view>(known.begin(), known.end()));
  if (!meant.empty()) return text + "; did you mean " + std::string(meant) + "?";
  if (option || known.empty()) return text + "; " + called + " --help says what can be given";
  text += "; there are ";
  for (std::size_t i = 0; i < known.size(); ++i) text += (i == 0 ? "" : ", ") + known[i];
  return text;
}

/// Says what is wrong with the words behind `app`'s name, where all options are known. CLI11 calls what is missing by
/// names that only the code has.
inline std::string about_words(const CLI::App& app, const CLI::ParseError& error) {
  std::string text = error.what();
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
    const std::string name = text.substr(0, text.find(':'));
    const CLI::Option* const o = app.get_option_no_throw(name);
    text = name + (o != nullptr && o->count() > 1 ? " is given more than once" : " needs a value");
  } else if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) {
    for (const CLI::Option* o : app.get_options()) {
      if (!o->get_required() || o->count() != 0) continue;
      text = called_by(app) + " needs " + (o->nonpositional() ? o->get_name() + " " : "") + o->get_type_name();
      break;
    }
  }
  return text + "; " + called_by(app) + " --help says what can be given";
}

}  // namespace cutrace_tool

// SPDX-License-Identifier: Apache-2.0
#include "cutrace/man_command.hpp"

#include <CLI/CLI.hpp>
#include <cutrace/version.hpp>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "cutrace/exit_status.hpp"

namespace cutrace_tool {

namespace {

/// `text` escaped so that roff prints it unchanged: no character acts as an escape, a hyphen, a typographic quote or
/// the control character '. The other control character, a point at the begin of a line, is escaped by put_text.
std::string roff(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '\\':
        out += "\\e";
        break;
      case '-':
        out += "\\-";
        break;
      case '\'':
        out += "\\(aq";
        break;
      case '`':
        out += "\\(ga";
        break;
      case '^':
        out += "\\(ha";
        break;
      case '~':
        out += "\\(ti";
        break;
      default:
        out += c;
    }
  }
  return out;
}

/// Wraps the words to short lines of roff. None begins with a bare point, which roff would take for a request.
void put_text(std::ostream& to, const std::string& text) {
  std::istringstream words(text);
  std::size_t column = 0;
  for (std::string word; words >> word;) {
    word = roff(word);
    if (column != 0 && column + 1 + word.size() > 76) {
      to << '\n';
      column = 0;
    }
    if (column == 0 && word[0] == '.') to << "\\&";
    to << (column != 0 ? " " : "") << word;
    column += word.size() + 1;
  }
  if (column != 0) to << '\n';
}

/// What stands around the options in a help: paragraphs, of which some are about the exit status, and examples.
struct surroundings {
  std::vector<std::string> paragraphs, status, examples;

  void add(const std::string& text) {
    std::istringstream lines(text);
    std::vector<std::string>* to = nullptr;
    bool among_examples = false;
    for (std::string line; std::getline(lines, line);) {
      if (line.empty()) {
        to = nullptr;
        among_examples = false;
      } else if (line == "Examples:") {
        among_examples = true;
      } else if (among_examples && line[0] == ' ') {
        examples.push_back(line.substr(line.find_first_not_of(' ')));
      } else {
        among_examples = false;
        const std::size_t code = line.find("Exit code: ");
        const bool is_status = code != std::string::npos || line.rfind("The exit status", 0) == 0;
        if (code != std::string::npos && code != 0) put(to, paragraphs, line.substr(0, code));
        if (is_status) {
          status.push_back(code != std::string::npos ? line.substr(code + 11) : line);
          to = &status;
        } else {
          put(to, paragraphs, line);
        }
      }
    }
  }

 private:
  static void put(std::vector<std::string>*& to, std::vector<std::string>& otherwise, const std::string& line) {
    if (to != nullptr) {
      to->back() += " " + line;
      return;
    }
    to = &otherwise;
    to->push_back(line);
  }
};

void put_paragraphs(std::ostream& to, const char* heading, const std::vector<std::string>& paragraphs) {
  if (paragraphs.empty()) return;
  to << ".SH " << heading << '\n';
  for (std::size_t i = 0; i < paragraphs.size(); ++i) {
    if (i != 0) to << ".PP\n";
    put_text(to, paragraphs[i]);
  }
}

void put_options(std::ostream& to, const CLI::App& app, bool positional) {
  for (const CLI::Option* o : app.get_options()) {
    if (o->get_positional() != positional || o->get_group().empty()) continue;
    std::string name = o->get_name(positional, true);
    for (std::size_t at = 0; (at = name.find(',', at)) != std::string::npos; at += 2) name.replace(at, 1, ", ");
    const std::size_t to_output = name.find("{-}");  // see help_format
    const bool may_take_file = to_output != std::string::npos;
    if (may_take_file) name.resize(to_output);
    const std::string value = may_take_file ? "" : o->get_type_name();
    to << ".TP\n\\fB" << roff(name) << "\\fR";
    if (may_take_file) to << "[=\\fIFILE\\fR]";
    if (!value.empty()) to << " \\fI" << roff(value) << "\\fR";
    to << '\n';
    put_text(to, o->get_description());
  }
}

/// Each line: a command line, two spaces or more, and what it is for.
void put_examples(std::ostream& to, const std::vector<std::string>& examples) {
  if (examples.empty()) return;
  to << ".SH EXAMPLES\n";
  for (const std::string& line : examples) {
    const std::size_t gap = line.find("  ");
    to << ".TP\n\\fB" << roff(line.substr(0, gap)) << "\\fR\n";
    if (gap == std::string::npos)
      to << "\\&\n";
    else
      put_text(to, line.substr(gap));
  }
}

std::string synopsis_of(const CLI::App& app, const std::string& called) {
  const auto* format = dynamic_cast<const CLI::Formatter*>(app.get_formatter().get());
  std::string usage = format != nullptr ? format->make_usage(&app, called) : called;
  const std::size_t colon = usage.find(':');
  usage = usage.substr(colon == std::string::npos ? 0 : colon + 1);
  const std::size_t from = usage.find_first_not_of(" \n"), to = usage.find_last_not_of(" \n");
  return usage.substr(from, to - from + 1);
}

std::vector<const CLI::App*> commands_with_pages(const CLI::App& app) {
  std::vector<const CLI::App*> all;
  for (const CLI::App* c : app.get_subcommands([](const CLI::App*) { return true; }))
    if (!c->get_group().empty()) all.push_back(c);
  return all;
}

/// `of`: the app itself or one of its commands.
std::string manual_page(const CLI::App& app, const CLI::App& of, const std::string& date) {
  const bool whole = &app == &of;
  const std::string called = whole ? "cutrace" : "cutrace " + of.get_name();
  const std::string name = whole ? "cutrace" : "cutrace-" + of.get_name();
  std::string title = name;
  for (char& c : title) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  std::string about = of.get_description();
  const std::string rest = whole ? about.substr(std::min(about.find('\n'), about.size())) : std::string();
  about = about.substr(0, about.find('\n'));
  surroundings around;
  if (!whole) around.paragraphs.push_back(about + ".");
  around.add(rest);
  around.add(of.get_footer());
  if (whole) around.paragraphs.insert(around.paragraphs.begin(), about);
  std::string short_about = about;
  if (!short_about.empty() && short_about.back() == '.') short_about.pop_back();

  std::ostringstream to;
  to << ".\\\" SPDX-License-Identifier: Apache-2.0\n.TH " << roff(title) << " 1 \"" << date
     << "\" \"cutrace " CUTRACE_VERSION_STRING "\" \"User Commands\"\n.SH NAME\n"
     << roff(name) << " \\-\n";
  put_text(to, short_about);
  to << ".SH SYNOPSIS\n\\fB" << roff(called) << "\\fR";
  to << roff(synopsis_of(of, called).substr(called.size())) << '\n';
  put_paragraphs(to, "DESCRIPTION", around.paragraphs);
  to << ".SH OPTIONS\n";
  put_options(to, of, true);
  put_options(to, of, false);
  if (whole) {
    to << ".SH COMMANDS\n";
    for (const CLI::App* c : commands_with_pages(app)) {
      to << ".TP\n\\fB" << roff(c->get_name()) << "\\fR\n";
      put_text(to, c->get_description() + ".");
    }
  }
  put_paragraphs(to, "EXIT STATUS", around.status);
  put_examples(to, around.examples);
  to << ".SH SEE ALSO\n";
  std::vector<std::string> others;
  if (!whole) others.push_back("cutrace");
  for (const CLI::App* c : commands_with_pages(app))
    if (c != &of) others.push_back("cutrace-" + c->get_name());
  for (std::size_t i = 0; i < others.size(); ++i)
    to << ".BR " << roff(others[i]) << " (1)" << (i + 1 != others.size() ? " ," : "") << '\n';
  to << ".PP\nEnvironment variables, all options and formats of files are described in the\nproject\\(aqs documents, "
        "which are installed as\n.IR share/doc/cutrace/docs .\n";
  return to.str();
}

}  // namespace

void add_man(CLI::App& app, int& exit_status) {
  CLI::App* command = app.add_subcommand("man", "Print a manual page, of the command or of one of its commands");
  command->group("");  // not in the help: the build calls it, users type `man cutrace-run`
  struct wishes {
    std::string name, date;
  };
  const auto w = std::make_shared<wishes>();
  command->add_option("command", w->name, "Whose page; without it that of cutrace itself")->type_name("COMMAND");
  command->add_option("--date", w->date, "The date on it")->type_name("DATE");
  command->callback([&app, w, &exit_status] {
    const CLI::App* of = w->name.empty() ? &app : nullptr;
    for (const CLI::App* c : commands_with_pages(app))
      if (c->get_name() == w->name) of = c;
    if (of == nullptr) throw usage_error("there is no command \"" + w->name + "\" that could have a page");
    std::cout << manual_page(app, *of, w->date);
    exit_status = 0;
  });
}

}  // namespace cutrace_tool

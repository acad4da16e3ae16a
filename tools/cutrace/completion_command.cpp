// SPDX-License-Identifier: Apache-2.0
#include "cutrace/completion_command.hpp"

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "cutrace/help_format.hpp"

namespace cutrace_tool {

namespace {

struct known_option {
  std::string name, value;  ///< value: what follows it, as the help shows it; empty: nothing
  std::string description;
  /// "on|off" as "on off"; empty where anything may follow.
  std::string choices() const {
    std::string words = value;
    if (words.find_first_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ") != std::string::npos) return {};
    for (char& c : words)
      if (c == '|') c = ' ';
    return words;
  }
  bool is_folder() const { return value == "DIR"; }
  bool is_file() const { return value == "OUTPUT" || value == "PATH" || value.rfind("FILE", 0) == 0; }
};
struct known_command {
  std::string name, description;
  std::vector<known_option> options;
  bool runs_program;
  std::string words;  ///< what it takes besides options
  bool takes_files;
};

/// Up to the first sentence's end, without characters that shells read.
std::string short_text(const std::string& text) {
  std::string first = text.substr(0, text.find(". "));
  for (char& c : first)
    if (c == '\'' || c == '"' || c == '[' || c == ']' || c == ':' || c == '`' || c == '$') c = ' ';
  return first;
}

std::vector<known_option> options_of(const CLI::App& app) {
  std::vector<known_option> all;
  for (const CLI::Option* o : app.get_options()) {
    for (const std::string& name : o->get_lnames())
      all.push_back({"--" + name, o->get_items_expected_max() == 0 ? "" : o->get_type_name(), o->get_description()});
  }
  return all;
}

std::vector<known_command> commands_of(const CLI::App& app) {
  std::vector<known_command> all;
  for (const CLI::App* c : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (c->get_group().empty()) continue;  // not in the help either
    known_command known{c->get_name(), c->get_description(), options_of(*c), c->get_name() == "run", "", false};
    for (const CLI::Option* o : c->get_options())
      if (o->get_positional()) known.words += o->get_type_name();
    if (known.words.rfind("FILE", 0) == 0) {
      known.takes_files = true;
      known.words.clear();
    }
    for (char& ch : known.words)
      if (ch == '|') ch = ' ';
    all.push_back(known);
  }
  return all;
}

template <class Item>
std::string joined(const std::vector<Item>& items) {
  std::string words;
  for (const Item& i : items) words += (words.empty() ? "" : " ") + i.name;
  return words;
}

/// Names are read by mapfile, a line each: they may hold spaces.
std::string bash(const CLI::App& app) {
  const std::vector<known_command> commands = commands_of(app);
  std::string s =
      "# Completion of cutrace for bash; in ~/.bashrc: source <(cutrace completion bash)\n"
      "_cutrace() {\n"
      "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]} i\n"
      "  COMPREPLY=()\n"
      "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
      "    COMPREPLY=($(compgen -W '" +
      joined(commands) + " " + joined(options_of(app)) +
      "' -- \"$word\"))\n"
      "    return\n"
      "  fi\n"
      "  case $command in\n";
  for (const known_command& c : commands) {
    s += "  " + c.name + ")\n";
    if (c.runs_program) {
      // Behind "--" stands a command line of its own.
      s += "    for ((i = 2; i < COMP_CWORD; i++)); do\n"
           "      [ \"${COMP_WORDS[i]}\" = -- ] || continue\n"
           "      if [ \"$COMP_CWORD\" -eq $((i + 1)) ]; then mapfile -t COMPREPLY < <(compgen -c -f -- \"$word\")\n"
           "      else mapfile -t COMPREPLY < <(compgen -f -- \"$word\"); fi\n"
           "      return\n"
           "    done\n";
    }
    s += "    case $before in\n";
    for (const known_option& o : c.options) {
      if (o.is_folder())
        s += "    " + o.name + ") mapfile -t COMPREPLY < <(compgen -d -- \"$word\"); return ;;\n";
      else if (o.is_file())
        s += "    " + o.name + (o.value == "OUTPUT" ? " | -o" : "") +
             ") mapfile -t COMPREPLY < <(compgen -f -- \"$word\"); return ;;\n";
      else if (!o.choices().empty())
        s += "    " + o.name + ") COMPREPLY=($(compgen -W '" + o.choices() + "' -- \"$word\")); return ;;\n";
      else if (!o.value.empty())
        s += "    " + o.name + ") return ;;\n";
    }
    s += "    esac\n";
    // Words that begin with a dash are options, others files.
    if (c.takes_files) s += "    [[ $word = -* ]] || { mapfile -t COMPREPLY < <(compgen -f -- \"$word\"); return; }\n";
    s += "    COMPREPLY=($(compgen -W '" + joined(c.options) + (c.words.empty() ? "" : " " + c.words) +
         (c.runs_program ? " --" : "") + "' -- \"$word\"))\n";
    s += "    ;;\n";
  }
  return s + "  esac\n}\ncomplete -o filenames -F _cutrace cutrace\n";
}

std::string zsh(const CLI::App& app) {
  const std::vector<known_command> commands = commands_of(app);
  std::string s =
      "#compdef cutrace\n"
      "# Completion of cutrace for zsh; in ~/.zshrc: source <(cutrace completion zsh)\n"
      "_cutrace() {\n"
      "  local curcontext=$curcontext state\n"
      "  _arguments -C '1:command:((";
  for (const known_command& c : commands) s += c.name + "\\:\"" + short_text(c.description) + "\" ";
  s += "))' '*::argument:->arguments'";
  for (const known_option& o : options_of(app)) s += " '" + o.name + "[" + short_text(o.description) + "]'";
  s += "\n  [[ $state = arguments ]] || return\n  case $words[1] in\n";
  for (const known_command& c : commands) {
    s += "  " + c.name + ")\n    _arguments";
    for (const known_option& o : c.options) {
      s += " \\\n      '*" + o.name + "[" + short_text(o.description) + "]";
      if (o.is_folder())
        s += ":folder:_files -/";
      else if (o.is_file())
        s += ":file:_files";
      else if (!o.choices().empty())
        s += ":choice:(" + o.choices() + ")";
      else if (!o.value.empty())
        s += ":" + o.value + ": ";
      s += "'";
    }
    if (!c.words.empty()) s += " '1:argument:(" + c.words + ")'";
    if (c.takes_files) s += " '*:file:_files'";
    if (c.runs_program) s += " \\\n      '(-)--[the program]' '*::program:_normal'";
    s += "\n    ;;\n";
  }
  // zsh may load the script as the body of a function _cutrace at the first completion: then the script completes, too.
  return s + "  esac\n}\nif [[ $funcstack[1] = _cutrace ]]; then _cutrace \"$@\"; else compdef _cutrace cutrace; fi\n";
}

std::string fish(const CLI::App& app) {
  const std::vector<known_command> commands = commands_of(app);
  std::string s =
      "# Completion of cutrace for fish; in config.fish: cutrace completion fish | source\n"
      "complete -c cutrace -f\n";
  for (const known_option& o : options_of(app))
    s += "complete -c cutrace -n __fish_use_subcommand -l " + o.name.substr(2) + " -d '" + short_text(o.description) +
         "'\n";
  for (const known_command& c : commands) {
    s += "complete -c cutrace -n __fish_use_subcommand -a " + c.name + " -d '" + short_text(c.description) + "'\n";
    const std::string when = "complete -c cutrace -n '__fish_seen_subcommand_from " + c.name + "'";
    for (const known_option& o : c.options) {
      s += when + " -l " + o.name.substr(2) + " -d '" + short_text(o.description) + "'";
      if (o.is_folder())
        s += " -x -a '(__fish_complete_directories)'";
      else if (o.is_file())
        s += " -r -F";
      else if (!o.choices().empty())
        s += " -x -a '" + o.choices() + "'";
      else if (!o.value.empty())
        s += " -x";
      s += "\n";
    }
    if (!c.words.empty()) s += when + " -a '" + c.words + "'\n";
    if (c.takes_files) s += when + " -F\n";
    if (c.runs_program) s += "complete -c cutrace -n 'contains -- -- (commandline -opc)' -F\n";
  }
  return s;
}

}  // namespace

void add_completion(CLI::App& app, int& exit_status) {
  CLI::App* completion = app.add_subcommand("completion", "Print a script that completes command lines in a shell");
  auto shell = std::make_shared<std::string>();
  completion->add_option("shell", *shell, "Whose script")
      ->required()
      ->check(one_of({"bash", "zsh", "fish"}))
      ->type_name("bash|zsh|fish");
  completion->footer(
      "Examples:\n"
      "  source <(cutrace completion bash)\n"
      "  cutrace completion fish > ~/.config/fish/completions/cutrace.fish\n");
  completion->callback([&app, shell, &exit_status] {
    std::cout << (*shell == "bash" ? bash(app) : *shell == "zsh" ? zsh(app) : fish(app));
    exit_status = 0;
  });
}

}  // namespace cutrace_tool

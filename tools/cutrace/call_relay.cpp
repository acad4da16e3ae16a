// SPDX-License-Identifier: Apache-2.0
#if defined(CUTRACE_WITH_EBPF)
#include "cutrace/call_relay.hpp"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <cutrace/clock.hpp>
#include <fstream>

#include "call_backend.hpp"
#include "cutrace/patience.hpp"
#include "cutrace/remote_trace.hpp"

namespace cutrace_tool {

namespace eb = cutrace_ebpf;
using cutrace::clock::monotonic_ns;

namespace {

constexpr std::size_t waiting_limit = std::size_t{8} << 20;  ///< bytes; beyond, records stay in the kernel's ring
constexpr std::uint64_t ms = 1000000, look_period_ns = 100 * ms, library_period_ns = 10 * ms;

/// Size of a process's memory in pages, which changes when it maps a library; 0: it is gone.
std::uint64_t pages_of(std::uint32_t process) {
  std::uint64_t pages = 0;
  std::ifstream("/proc/" + std::to_string(process) + "/statm") >> pages;
  return pages;
}

}  // namespace

call_relay::call_relay(eb::call_probes& probes, std::map<std::string, std::string> writer_variables,
                       std::uint32_t only_process)
    : probes_(probes),
      variables_(std::move(writer_variables)),
      only_process_(only_process),
      since_ns_(monotonic_ns()) {}

call_relay::~call_relay() {
  for (auto& [process, w] : writers_)
    if (w.pipe >= 0) ::close(w.pipe);
}

void call_relay::relay() {
  const bool room = flush_all();
  if (!room) {
    ::usleep(1000);
    return;
  }
  probes_.consume([this](const void* record, std::size_t bytes) { return take(record, bytes); });
  flush_all();
  const std::uint64_t now = monotonic_ns();
  if (now - looked_ns_ >= look_period_ns) {
    looked_ns_ = now;
    look_at_processes();
  }
  if (watching_) look_for_libraries(now);
}

bool call_relay::take(const void* record, std::size_t bytes) {
  if (waiting_ >= waiting_limit) return false;
  cutrace_ebpf_head head;
  if (bytes < sizeof(head)) return true;
  std::memcpy(&head, record, sizeof(head));
  if (head.kind == CUTRACE_EBPF_FUNCTION) {
    cutrace_ebpf_function f;
    if (bytes < sizeof(f)) return true;
    std::memcpy(&f, record, sizeof(f));
    take_function(f);
    return true;
  }
  const std::size_t size = eb::bytes_of(head.kind);
  if (size == 0 || bytes < size) return true;
  if (head.process == 0) {
    take_for_all(static_cast<const char*>(record), size);
    return true;
  }
  std::string name;
  if (head.kind == CUTRACE_EBPF_THREAD) {
    cutrace_ebpf_thread t;
    std::memcpy(&t, record, sizeof(t));
    name.assign(t.name, ::strnlen(t.name, sizeof(t.name)));
  }
  writer& w = writer_of(head.process, name);
  if (head.kind == CUTRACE_EBPF_CALL || head.kind == CUTRACE_EBPF_LONG_CALL) {
    cutrace_ebpf_call c;
    std::memcpy(&c, record, sizeof(c));
    const eb::call_probes::known_function* f = probes_.function(c.function);
    if (f != nullptr && !w.named[c.function]) {
      w.named[c.function] = true;
      auto meaning = eb::make_record<eb::name_record>(eb::stream_name, head.process);
      meaning.function = c.function;
      meaning.exported = f->exported ? 1 : 0;
      std::memcpy(meaning.name, f->name.data(), std::min(f->name.size(), sizeof(meaning.name) - 1));
      put(w, meaning);
    }
  }
  const char* const data = static_cast<const char*>(record);
  w.waiting.insert(w.waiting.end(), data, data + size);
  waiting_ += size;
  return true;
}

/// Puts a record that concerns no single process into the trace of each process that is traced at that moment.
void call_relay::take_for_all(const char* record, std::size_t size) {
  for (auto& [process, w] : writers_) {
    if (w.pipe < 0) continue;
    w.waiting.insert(w.waiting.end(), record, record + size);
    waiting_ += size;
  }
}

void call_relay::report_lost_for_all() {
  if (kernel_ == nullptr) return;
  const cutrace_ebpf_totals t = kernel_->totals();
  auto r = eb::make_record<eb::lost_record>(eb::stream_lost, 0);
  std::uint64_t all = 0;
  for (unsigned i = 0; i < CUTRACE_EBPF_LOSSES; ++i) all += r.lost[i] = t.lost[i] - totals_.lost[i];
  totals_ = t;
  if (all != 0) take_for_all(reinterpret_cast<const char*>(&r), sizeof(r));
}

template <class Record>
void call_relay::put(writer& w, const Record& r) {
  const char* const data = reinterpret_cast<const char*>(&r);
  w.waiting.insert(w.waiting.end(), data, data + sizeof(r));
  waiting_ += sizeof(r);
}

void call_relay::put_note(writer& w, const std::string& text) {
  constexpr std::size_t room = sizeof(eb::note_record::text) - 1;
  for (std::size_t at = 0; at < text.size(); at += room) {
    auto r = eb::make_record<eb::note_record>(eb::stream_note, 0);
    std::memcpy(r.text, text.data() + at, std::min(text.size() - at, room));
    if (text.size() - at > room) r.head.flags = eb::note_goes_on;
    put(w, r);
  }
}

/// For what is tried again and again: the same note is kept once.
void call_relay::note_once(const std::string& text) {
  if (std::find(notes_.begin(), notes_.end(), text) == notes_.end()) notes_.push_back(text);
}

void call_relay::flush(writer& w) {
  while (w.sent < w.waiting.size() && w.pipe >= 0) {
    const ssize_t n = ::write(w.pipe, w.waiting.data() + w.sent, w.waiting.size() - w.sent);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) break;
    if (n < 0) {
      ::close(w.pipe);
      w.pipe = -1;
      break;
    }
    w.sent += static_cast<std::size_t>(n);
    carried_ += static_cast<std::size_t>(n);
    waiting_ -= static_cast<std::size_t>(n);
  }
  if (w.pipe < 0 && w.sent < w.waiting.size()) {
    gave_up_ = true;
    note_once("records of process " + std::to_string(w.traced) +
              " are in no trace: the process that writes it could not start, or ended before it had them all");
    waiting_ -= w.waiting.size() - w.sent;
  }
  if (w.pipe < 0 || w.sent == w.waiting.size()) {
    w.waiting.clear();
    w.sent = 0;
  }
}

/// False while there is no room for more.
bool call_relay::flush_all() {
  for (auto& [process, w] : writers_) flush(w);
  return waiting_ < waiting_limit;
}

call_relay::writer& call_relay::writer_of(std::uint32_t process, const std::string& name) {
  const auto known = writers_.find(process);
  if (known != writers_.end()) return known->second;
  remote_trace t;
  t.variables = variables_;
  t.process = process;
  t.name = name;
  if (process == program_) t.command_line = command_line_;
  t.since_ns = since_ns_;
  t.backend = "ebpf";
  const std::string how = std::string("uprobes (links: ") + eb::to_string(probes_.links()) + ")" +
                          (kernel_ != nullptr ? ", and probes on what Linux does (" + kernel_->working() + ")" : "");
  const eb::kernel_view& view = view_;
  const eb::probe_view user_view = user_probes_ != nullptr ? user_probes_->view() : eb::probe_view();
  t.make = [how, &view, user_view](int records) { return new eb::call_backend(records, how, view, user_view); };
  writer& w = writers_[process];
  w.traced = process;
  w.process = start_remote_trace(t, w.pipe);
  return w;
}

void call_relay::report_lost(std::uint32_t process, const cutrace_ebpf_target& t) {
  if (t.ended == CUTRACE_EBPF_GAINED_RIGHTS)
    note_once("process " + std::to_string(process) +
              " executed a program with more rights than it had (setuid, setgid or file capabilities): its trace ends "
              "there");
  const auto known = writers_.find(process);
  std::uint64_t all = 0;
  for (unsigned i = 0; i < CUTRACE_EBPF_LOSSES; ++i)
    all += t.lost[i] - (known != writers_.end() ? known->second.lost[i] : 0);
  if (all == 0) return;
  writer& w = writer_of(process, {});
  auto r = eb::make_record<eb::lost_record>(eb::stream_lost, process);
  for (unsigned i = 0; i < CUTRACE_EBPF_LOSSES; ++i) {
    r.lost[i] = t.lost[i] - w.lost[i];
    w.lost[i] = t.lost[i];
  }
  put(w, r);
}

void call_relay::look_at_processes() {
  report_lost_for_all();
  for (const std::uint32_t process : probes_.traced()) {
    cutrace_ebpf_target t;
    if (!probes_.look_at(process, t)) continue;
    report_lost(process, t);
    if (t.ended == CUTRACE_EBPF_RUNS) {
      watched_[process];
      continue;
    }
    // Probes that run at the end of the process may still write when it is marked as ended: wait for the next look.
    if (!watched_[process].ended) {
      watched_[process].ended = true;
      continue;
    }
    // The look before has already seen the end, so that one more reading of the ring finds the last record.
    probes_.consume([this](const void* record, std::size_t bytes) { return take(record, bytes); });
    if (waiting_ >= waiting_limit) return;  // later
    if (probes_.look_at(process, t)) report_lost(process, t);
    probes_.forget(process);
    watched_.erase(process);
    const auto w = writers_.find(process);
    if (w == writers_.end()) continue;
    close(w->second);
    if (w->second.pipe < 0) writers_.erase(w);
  }
  for (std::size_t i = 0; i < ending_.size();) {
    if (::waitpid(ending_[i], nullptr, WNOHANG) == 0)
      ++i;
    else
      ending_.erase(ending_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

void call_relay::put_kernel_notes(writer& w) {
  for (const std::string& note : kernel_->notes()) put_note(w, note);
  if (const std::uint64_t faults = kernel_->totals().faults_unreported)
    put_note(w, "of " + std::to_string(faults) + " page faults it is not known what they touched");
  if (const std::uint64_t times = kernel_->passed_over())
    put_note(w, "Linux skipped probes on its own functions " + std::to_string(times) +
                    " times, since they were busy: as many events may be missing");
}

/// Writes the notes at the end of a trace and closes its pipe. Waits for as long as the pipe goes on taking bytes.
void call_relay::close(writer& w) {
  if (!added_.empty())
    put_note(w, "not exported, so probed only from cuGetProcAddress's answer on: first calls may be missing: " +
                    fmt::format("{}", fmt::join(added_, ", ")));
  if (!probes_.left_out().empty())
    put_note(w, "calls of these are not seen, since the kernel cannot probe their first instruction: " +
                    fmt::format("{}", fmt::join(probes_.left_out(), ", ")));
  if (!probes_.same_places().empty())
    put_note(w, "one function under several symbols: " + fmt::format("{}", fmt::join(probes_.same_places(), ", ")));
  if (probes_.links() == eb::link_kind::single)
    put_note(w, "a link for each function, since better ones are not to be had here: uncounted calls may be missing");
  for (const std::string& note : notes_) put_note(w, note);
  if (kernel_ != nullptr) put_kernel_notes(w);
  if (user_probes_ != nullptr)
    for (const std::string& note : user_probes_->notes()) put_note(w, note);
  patience wait;
  for (flush(w); w.pipe >= 0 && !w.waiting.empty() && wait.lasts(carried_); flush(w)) ::usleep(1000);
  if (w.pipe >= 0 && !w.waiting.empty()) {
    gave_up_ = true;
    note_once("records of " + std::to_string(w.waiting.size() - w.sent) +
              " bytes are in no trace: the process that writes it took nothing for ten seconds");
  }
  if (w.pipe >= 0) ::close(w.pipe);
  w.pipe = -1;
  waiting_ -= w.waiting.size() - w.sent;
  w.waiting.clear();
  w.sent = 0;
  if (w.process > 0) ending_.push_back(w.process);
  w.process = -1;
}

bool call_relay::finish() {
  if (kernel_ != nullptr) kernel_->detach();  // first: what it recorded later would have no call
  probes_.detach();
  if (user_probes_ != nullptr) user_probes_->end();
  // Reads the ring and fills the pipes, as fast as the writing processes take records.
  patience wait;
  std::size_t before = 0;
  do {
    before = waiting_;
    probes_.consume([this](const void* record, std::size_t bytes) { return take(record, bytes); });
    flush_all();
    if (waiting_ != 0) ::usleep(1000);
  } while ((waiting_ != 0 || before != 0) && wait.lasts(carried_));
  std::uint64_t given_up = 0;
  if (waiting_ >= waiting_limit) probes_.consume([&](const void*, std::size_t) { return ++given_up != 0; });
  if (given_up != 0) {
    gave_up_ = true;
    note_once(std::to_string(given_up) +
              " records are in no trace: the process that writes it took nothing for ten seconds");
  }
  for (const std::uint32_t process : probes_.traced()) {
    cutrace_ebpf_target t;
    if (probes_.look_at(process, t)) report_lost(process, t);
  }
  report_lost_for_all();
  for (auto& [process, w] : writers_)
    if (w.pipe >= 0) close(w);
  for (const pid_t w : ending_) ::waitpid(w, nullptr, 0);
  ending_.clear();
  for (auto& [process, w] : writers_)
    if (w.process > 0) ::waitpid(w.process, nullptr, 0);
  return !gave_up_;
}

std::size_t call_relay::attach_mapped(std::uint32_t process) {
  return read_libraries(process, watched_[process], false);
}

/// Puts probes on those driver libraries of the process that have none.
std::size_t call_relay::read_libraries(std::uint32_t process, watched& w, bool late) {
  std::size_t functions = 0;
  w.libraries.clear();
  for (const eb::mapped_file& m : eb::mapped_drivers(process)) {
    try {
      auto file = std::make_shared<eb::opened_file>(eb::open_mapped(process, m));
      std::weak_ptr<eb::opened_file>& held = files_[file->identity()];
      if (const auto known = held.lock())
        file = known;
      else
        held = file;
      w.libraries.push_back({m, file});
      const bool is_new = !probes_.is_attached(*file);
      const std::size_t added = probes_.attach(*file, only_process_);
      if (is_new && user_probes_ != nullptr) user_probes_->attach_driver(*file, only_process_);
      functions += added;
      if (added != 0 && late)
        notes_.push_back(m.path + " was already mapped by process " + std::to_string(process) +
                         " when it was found and got its probes: calls before that are missing");
    } catch (const eb::refused&) {
      throw;
    } catch (const std::runtime_error& e) {
      note_once(std::string("no probes: ") + e.what());
    }
  }
  return functions;
}

/// Looks for driver libraries that were mapped from folders not searched before. The table of mappings is long, so that
/// it is read only when the process's memory has changed, and at most a twentieth of the time.
void call_relay::look_for_libraries(std::uint64_t now_ns) {
  for (auto& [process, w] : watched_) {
    if (now_ns < w.next_ns) continue;
    w.next_ns = now_ns + library_period_ns;
    const std::uint64_t pages = pages_of(process);
    if (pages == 0 || pages == w.pages) continue;
    w.pages = pages;
    const std::uint64_t begin = monotonic_ns();
    try {
      read_libraries(process, w, true);
    } catch (const eb::refused& e) {
      note_once(e.what());
    }
    const std::uint64_t end = monotonic_ns();
    w.next_ns = end + std::max(library_period_ns, 20 * (end - begin));
  }
}

/// cuGetProcAddress gave out a pointer. One that is no exported symbol gets its probe now.
void call_relay::take_function(const cutrace_ebpf_function& f) {
  watched& w = watched_[f.head.process];
  if (!w.answered.insert(f.address).second) return;
  const auto holds = [&](const library& l) { return f.address >= l.where.begin && f.address < l.where.end; };
  auto found = std::find_if(w.libraries.begin(), w.libraries.end(), holds);
  try {
    if (found == w.libraries.end()) {
      read_libraries(f.head.process, w, true);
      found = std::find_if(w.libraries.begin(), w.libraries.end(), holds);
    }
    if (found == w.libraries.end()) return;
    const std::string name(f.name, ::strnlen(f.name, sizeof(f.name)));
    if (probes_.attach_one(*found->file, f.address - found->where.begin + found->where.offset, name, only_process_))
      added_.push_back(name);
  } catch (const eb::refused& e) {
    notes_.push_back(e.what());
  }
}

}  // namespace cutrace_tool
#endif

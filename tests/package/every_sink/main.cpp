// SPDX-License-Identifier: Apache-2.0
// Without any include of cutrace.
#include <cstdio>
#include <cstdlib>

int trace_with_every_sink(const char* folder);

int main() {
  char folder[] = "/tmp/cutrace-every-sink-XXXXXX";
  if (mkdtemp(folder) == nullptr) return 1;
  const int missing = trace_with_every_sink(folder);
  std::printf("%d sinks wrote nothing\n", missing);
  return missing;
}

// SPDX-License-Identifier: Apache-2.0
// Without any include of cutrace. The files lie in the working folder for a moment.
#include <cstdio>
#include <cstdlib>

int trace_with_every_sink(const char* folder);

int main() {
  char folder[] = "every-sink-XXXXXX";
  if (mkdtemp(folder) == nullptr) return 1;
  const int missing = trace_with_every_sink(folder);
  std::printf("%d sinks wrote nothing\n", missing);
  return missing;
}

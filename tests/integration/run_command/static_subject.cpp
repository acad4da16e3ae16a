// SPDX-License-Identifier: Apache-2.0
// A program that no library can be injected into.
int main() { return 7; }

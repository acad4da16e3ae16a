// SPDX-License-Identifier: Apache-2.0
// A program needs a source file; `main` is in the library.

// SPDX-License-Identifier: Apache-2.0
// Reads ".gz" files by zlib itself, whole ones and the beginnings of cut ones; plain files as they are.
#pragma once

#include <zlib.h>

#include <stdexcept>
#include <string>

#include "support/temporary_folder.hpp"

/// All text that can be had of what may be the beginning of a gzip stream. `whole` says whether its end was there.
inline std::string unzipped(const std::string& bytes, bool* whole = nullptr) {
  z_stream stream{};
  if (inflateInit2(&stream, 15 + 16) != Z_OK) throw std::runtime_error("inflateInit2");
  std::string text;
  std::string room(1 << 16, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  int state = Z_OK;
  do {
    stream.next_out = reinterpret_cast<Bytef*>(&room[0]);
    stream.avail_out = static_cast<uInt>(room.size());
    state = inflate(&stream, Z_NO_FLUSH);
    text.append(room, 0, room.size() - stream.avail_out);
  } while (state == Z_OK && (stream.avail_in != 0 || stream.avail_out == 0));
  inflateEnd(&stream);
  if (state != Z_OK && state != Z_STREAM_END && state != Z_BUF_ERROR) throw std::runtime_error("no gzip stream");
  if (whole != nullptr) *whole = state == Z_STREAM_END && stream.avail_in == 0;
  return text;
}

/// Of a complete file, compressed or not.
inline std::string text_of_file(const std::string& path) {
  const std::string bytes = content_of(path);
  if (bytes.compare(0, 2, "\x1f\x8b") != 0) return bytes;
  bool whole = false;
  std::string text = unzipped(bytes, &whole);
  if (!whole) throw std::runtime_error(path + " is cut short");
  return text;
}

// SPDX-License-Identifier: Apache-2.0
// Owned memory: arrays on the device, and pinned arrays of the host. Both may move, neither may be copied. The gpu must
// outlive them, and no work on them may be pending when they go.
#pragma once

#include <cstddef>
#include <utility>

#include "gpu.hpp"
#include "kernels.hpp"

namespace server {

template <class T>
class device_array {
 public:
  device_array() = default;
  device_array(gpu& owner, std::size_t size) : gpu_(&owner), size_(size), data_{owner.allocate(size * sizeof(T))} {}
  device_array(device_array&& o) noexcept { swap(o); }
  device_array& operator=(device_array&& o) noexcept {
    swap(o);
    return *this;
  }
  ~device_array() {
    if (gpu_ != nullptr) gpu_->release(data_.address);
  }

  device_pointer<T> data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  void swap(device_array& o) noexcept {
    std::swap(gpu_, o.gpu_);
    std::swap(size_, o.size_);
    std::swap(data_, o.data_);
  }
  gpu* gpu_ = nullptr;
  std::size_t size_ = 0;
  device_pointer<T> data_;
};

template <class T>
class pinned_array {
 public:
  pinned_array(gpu& owner, std::size_t size)
      : gpu_(owner), size_(size), data_(static_cast<T*>(owner.allocate_pinned(size * sizeof(T)))) {}
  pinned_array(const pinned_array&) = delete;
  pinned_array& operator=(const pinned_array&) = delete;
  ~pinned_array() { gpu_.release_pinned(data_); }

  T* data() const { return data_; }
  std::size_t size() const { return size_; }
  T& operator[](std::size_t i) const { return data_[i]; }

 private:
  gpu& gpu_;
  std::size_t size_;
  T* data_;
};

}  // namespace server

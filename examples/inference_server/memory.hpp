// SPDX-License-Identifier: Apache-2.0
// Owned memory: arrays on the device, which may move, and of the host, which may not; neither may be copied. The gpu
// must outlive them, and no work on them may be pending when they go.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

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

enum class host_memory { pinned, pageable };

/// On the host. Copies access pinned memory directly; pageable memory takes a staging buffer, and the host waits
/// for it.
template <class T>
class host_array {
 public:
  host_array(gpu& owner, std::size_t size, host_memory kind)
      : gpu_(owner), size_(size), pageable_(kind == host_memory::pageable ? size : 0) {
    data_ = kind == host_memory::pageable ? pageable_.data() : static_cast<T*>(owner.allocate_pinned(size * sizeof(T)));
  }
  host_array(const host_array&) = delete;
  host_array& operator=(const host_array&) = delete;
  ~host_array() {
    if (pageable_.empty()) gpu_.release_pinned(data_);
  }

  T* data() const { return data_; }
  std::size_t size() const { return size_; }
  T& operator[](std::size_t i) const { return data_[i]; }

 private:
  gpu& gpu_;
  std::size_t size_;
  std::vector<T> pageable_;
  T* data_;
};

}  // namespace server

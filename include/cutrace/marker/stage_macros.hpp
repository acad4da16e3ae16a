// SPDX-License-Identifier: Apache-2.0
// The stage macros, and what mark.hpp shares with them. With markers disabled, and on the device side of a .cu file,
// the compiler checks the macros' arguments, and nothing evaluates them.
#pragma once

#include <cutrace/config.hpp>

// Picks macro ..._1 or ..._2 by the number of arguments; no GNU comma extension, so -Wpedantic stays quiet.
#define CUTRACE_DETAIL_SELECT(_1, _2, macro, ...) macro
#define CUTRACE_DETAIL_SELECT_1(_1, macro, ...) macro

#if CUTRACE_ENABLED && !defined(__CUDA_ARCH__)

// The site is a static of a function template that the call site's lambda instantiates, so that each macro is one
// declaration or one expression. `"" name ""` refuses anything but a literal: the runtime reads the text once, and the
// record holds the site's id. (Inside the lambda `__func__` would be the lambda's own: it is passed beside the lambda.)
#define CUTRACE_DETAIL_FACTS(kind, name) \
  [] { return ::cutrace::detail::site_facts{::cutrace::detail::site_kind::kind, name, __FILE__, __LINE__}; }
#define CUTRACE_DETAIL_SITE(kind, name) ::cutrace::detail::site_of(CUTRACE_DETAIL_FACTS(kind, "" name ""))
#define CUTRACE_DETAIL_FUNCTION_SITE \
  ::cutrace::detail::named(::cutrace::detail::site_of(CUTRACE_DETAIL_FACTS(stage, nullptr)), __func__)
#define CUTRACE_DETAIL_SCOPE(...) \
  const ::cutrace::scoped_stage CUTRACE_CONCAT(cutrace_stage_, __COUNTER__) { __VA_ARGS__ }

#define CUTRACE_DETAIL_STAGE_1(name) CUTRACE_DETAIL_SCOPE(CUTRACE_DETAIL_SITE(stage, name))
#define CUTRACE_DETAIL_STAGE_2(name, request) CUTRACE_DETAIL_SCOPE(CUTRACE_DETAIL_SITE(stage, name), request)
#define CUTRACE_STAGE(...) \
  CUTRACE_DETAIL_SELECT(__VA_ARGS__, CUTRACE_DETAIL_STAGE_2, CUTRACE_DETAIL_STAGE_1, )(__VA_ARGS__)

#define CUTRACE_STAGE_BATCH(name, ids, n) \
  CUTRACE_DETAIL_SCOPE(CUTRACE_DETAIL_SITE(stage, name), ::cutrace::request::batch(ids, n))

#define CUTRACE_DETAIL_DYNAMIC_1(name) CUTRACE_DETAIL_SCOPE(::cutrace::scoped_stage::dynamic(name))
#define CUTRACE_DETAIL_DYNAMIC_2(name, request) CUTRACE_DETAIL_SCOPE(::cutrace::scoped_stage::dynamic(name), request)
#define CUTRACE_STAGE_DYNAMIC(...) \
  CUTRACE_DETAIL_SELECT(__VA_ARGS__, CUTRACE_DETAIL_DYNAMIC_2, CUTRACE_DETAIL_DYNAMIC_1, )(__VA_ARGS__)

#define CUTRACE_FUNCTION() CUTRACE_DETAIL_SCOPE(CUTRACE_DETAIL_FUNCTION_SITE)
#define CUTRACE_FUNCTION_OF(request) CUTRACE_DETAIL_SCOPE(CUTRACE_DETAIL_FUNCTION_SITE, request)

#define CUTRACE_DETAIL_SPAN_1(name) (::cutrace::span(CUTRACE_DETAIL_SITE(stage, name)))
#define CUTRACE_DETAIL_SPAN_2(name, request) (::cutrace::span(CUTRACE_DETAIL_SITE(stage, name), request))
#define CUTRACE_SPAN(...) \
  CUTRACE_DETAIL_SELECT(__VA_ARGS__, CUTRACE_DETAIL_SPAN_2, CUTRACE_DETAIL_SPAN_1, )(__VA_ARGS__)

#else

#if defined(__CUDACC__)
#define CUTRACE_DETAIL_BOTH_SIDES __host__ __device__
#else
#define CUTRACE_DETAIL_BOTH_SIDES
#endif
CUTRACE_BEGIN_NAMESPACE
namespace detail {
// Never called: the arguments are type-checked and count as used, nothing is evaluated, and no symbol is left.
template <class... Arguments>
CUTRACE_DETAIL_BOTH_SIDES CUTRACE_INLINE void unused(const Arguments&...) noexcept {}
}  // namespace detail
CUTRACE_END_NAMESPACE
#undef CUTRACE_DETAIL_BOTH_SIDES
#define CUTRACE_DETAIL_NOTHING(...) (false ? ::cutrace::detail::unused(__VA_ARGS__) : void())

#define CUTRACE_STAGE(...) CUTRACE_DETAIL_NOTHING(__VA_ARGS__)
#define CUTRACE_STAGE_BATCH(name, ids, n) CUTRACE_DETAIL_NOTHING(name, ids, n)
#define CUTRACE_STAGE_DYNAMIC(...) CUTRACE_DETAIL_NOTHING(__VA_ARGS__)
#define CUTRACE_FUNCTION() CUTRACE_DETAIL_NOTHING(0)
#define CUTRACE_FUNCTION_OF(request) CUTRACE_DETAIL_NOTHING(request)
#define CUTRACE_SPAN(...) (CUTRACE_DETAIL_NOTHING(__VA_ARGS__), ::cutrace::span())

#endif

// FASTLOAD_CLONES: a function is compiled for several processors, and the best version
// runs.
#pragma once

// The best version is chosen through ifunc, which GCC offers for ELF only. Sanitizers
// have no clones, because ifunc resolvers run before a sanitizer is set up.
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && \
    defined(__ELF__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define FASTLOAD_CLONES \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
// A function with a version for processors with AVX-512, which is written by itself, and
// one for all others.
#define FASTLOAD_AVX512 __attribute__((target("arch=x86-64-v4")))
#define FASTLOAD_OTHERS __attribute__((target("default")))
#else
#define FASTLOAD_CLONES
#define FASTLOAD_OTHERS
#endif
#define FASTLOAD_INLINE inline __attribute__((always_inline))

// Runs files as a fuzzer's inputs, without libFuzzer, so that bugs that were found once
// stay fixed.
//
//   replay FILE ...
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

// Mutators refer to this function; replay runs inputs unchanged.
extern "C" size_t LLVMFuzzerMutate(uint8_t* /*data*/, size_t size, size_t /*max_size*/) {
  return size;
}

int main(int count, char** names) {
  for (int i = 1; i < count; ++i) {
    std::ifstream file(names[i], std::ios::binary);
    std::vector<uint8_t> bytes{std::istreambuf_iterator<char>(file), {}};
    if (bytes.empty()) {
      std::fprintf(stderr, "Expected bytes in %s, got none\n", names[i]);
      return 1;
    }
    bytes.shrink_to_fit();  // so that ASan sees reads behind the bytes
    std::printf("%s\n", names[i]);
    std::fflush(stdout);
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  }
  return 0;
}

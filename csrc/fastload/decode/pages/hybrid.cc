#include "fastload/decode/pages/hybrid.h"

#include <bit>
#include <cstring>
#include <numeric>

namespace fastload {

namespace {

constexpr int64_t kWordBits = 64;

uint64_t LoadWord(const uint8_t* in) {
  uint64_t word;
  std::memcpy(&word, in, sizeof(word));
  return word;
}

// Returns a word whose lowest n bits (1 to 64) are set.
uint64_t LowBits(int64_t n) { return ~uint64_t{0} >> (kWordBits - n); }

}  // namespace

void HybridDecoder::Reset(const uint8_t* data, int64_t size, int bit_width,
                          uint32_t most) {
  pos_ = data;
  end_ = data + size;
  bit_width_ = bit_width;
  most_ = most;
  run_left_ = 0;
}

HybridDecoder::Position HybridDecoder::position() const {
  return {.pos = pos_,
          .end = end_,
          .packed = packed_,
          .packed_end = packed_end_,
          .packed_index = packed_index_,
          .run_left = run_left_,
          .value = value_,
          .most = most_,
          .bit_width = bit_width_,
          .repeated = repeated_};
}

void HybridDecoder::GoTo(const Position& position) {
  pos_ = position.pos;
  end_ = position.end;
  packed_ = position.packed;
  packed_end_ = position.packed_end;
  packed_index_ = position.packed_index;
  run_left_ = position.run_left;
  value_ = position.value;
  most_ = position.most;
  bit_width_ = position.bit_width;
  repeated_ = position.repeated;
}

Status HybridDecoder::Truncated() const {
  return MakeError(ErrorKind::kCorruptFile,
                   "Expected another run of levels or dictionary indices, got the end "
                   "of the page");
}

Status BadIndex(uint32_t index, int64_t size) {
  return MakeError(ErrorKind::kCorruptFile, "Expected a dictionary index below " +
                                                std::to_string(size) + ", got " +
                                                std::to_string(index));
}

[[gnu::always_inline]] inline Status HybridDecoder::ReadRun() {
  // The header is an unsigned LEB128 number of at most 32 bits.
  uint64_t header = 0;
  int shift = 0;
  uint8_t byte = 0;
  do {
    if (pos_ == end_) return Truncated();
    byte = *pos_++;
    header |= static_cast<uint64_t>(byte & 0x7F) << shift;
    shift += 7;
  } while ((byte & 0x80) != 0 && shift < 35);
  if ((byte & 0x80) != 0 || header > UINT32_MAX) {
    return MakeError(ErrorKind::kCorruptFile,
                     "Expected a run length of at most 32 bits, got a longer one");
  }
  repeated_ = (header & 1) == 0;
  if (repeated_) {
    const int bytes = (bit_width_ + 7) / 8;
    if (end_ - pos_ < bytes) return Truncated();
    value_ = 0;
    for (int i = 0; i < bytes; ++i) value_ |= static_cast<uint32_t>(pos_[i]) << (8 * i);
    if (value_ > most_) {
      return MakeError(ErrorKind::kCorruptFile, "Expected levels of at most " +
                                                    std::to_string(most_) + ", got " +
                                                    std::to_string(value_));
    }
    pos_ += bytes;
    run_left_ = static_cast<int64_t>(header >> 1);
    return Status::OK();
  }
  const auto groups = static_cast<int64_t>(header >> 1);
  // Some writers truncate the last run after its last used value.
  const int64_t bytes = std::min<int64_t>(groups * bit_width_, end_ - pos_);
  packed_ = pos_;
  packed_index_ = 0;
  pos_ += bytes;
  packed_end_ = pos_;
  run_left_ = groups * 8;
  if (bit_width_ > 0) run_left_ = std::min(run_left_, bytes * 8 / bit_width_);
  return Status::OK();
}

Status HybridDecoder::NextRun() {
  while (run_left_ == 0) ARROW_RETURN_NOT_OK(ReadRun());
  return Status::OK();
}

void HybridDecoder::Move(const uint8_t* from, const uint8_t* to) {
  for (const uint8_t** at : {&pos_, &end_, &packed_, &packed_end_}) {
    if (*at != nullptr) *at = to + (*at - from);
  }
}

Result<HybridDecoder::Run> HybridDecoder::Peek() {
  // The last runs may be empty.
  while (run_left_ == 0) {
    if (pos_ == end_) return Run{};
    ARROW_RETURN_NOT_OK(ReadRun());
  }
  return Run{repeated_, value_, run_left_};
}

Status HybridDecoder::Skip(int64_t n) {
  while (n > 0) {
    if (run_left_ == 0) ARROW_RETURN_NOT_OK(NextRun());
    const int64_t count = std::min(n, run_left_);
    Consume(count);
    n -= count;
  }
  return Status::OK();
}

template <typename Code>
Status HybridDecoder::Decode(int64_t n, Code* out) {
  while (n > 0) {
    if (run_left_ == 0) ARROW_RETURN_NOT_OK(NextRun());
    const int64_t count = std::min(n, run_left_);
    if (repeated_) {
      std::fill_n(out, count, static_cast<Code>(value_));
      Consume(count);
    } else {
      Unpack(count, out);
    }
    out += count;
    n -= count;
  }
  return Status::OK();
}

Status HybridDecoder::DecodeBits(int64_t n, uint8_t* out) {
  while (n > 0) {
    if (run_left_ == 0) ARROW_RETURN_NOT_OK(NextRun());
    const int64_t count = std::min(n, run_left_);
    if (repeated_) {
      std::memset(out, value_ & 1, static_cast<size_t>(count));
      Consume(count);
    } else {
      UnpackBytes(count, out);
    }
    out += count;
    n -= count;
  }
  return Status::OK();
}

Result<int64_t> HybridDecoder::FindZeros(int64_t n, uint16_t* at) {
  const uint16_t* const begin = at;
  for (int64_t done = 0; done < n;) {
    if (run_left_ == 0) ARROW_RETURN_NOT_OK(NextRun());
    const int64_t count = std::min(n - done, run_left_);
    if (!repeated_) {
      at = UnpackZeros(count, done, at);
    } else {
      if ((value_ & 1) == 0) {
        std::iota(at, at + count, static_cast<uint16_t>(done));
        at += count;
      }
      Consume(count);
    }
    done += count;
  }
  return at - begin;
}

Result<bool> HybridDecoder::TakeRow(int64_t n) {
  std::array<uint16_t, kBlockValues> zeros;
  for (int64_t at = 0; at < n;) {
    const int64_t count = std::min(n - at, kBlockValues);
    ARROW_ASSIGN_OR_RAISE(const int64_t found, FindZeros(count, zeros.data()));
    if (found != (at == 0 ? 1 : 0) || (found > 0 && zeros[0] != 0)) return false;
    at += count;
  }
  return true;
}

Result<int64_t> HybridDecoder::SkipEqualRows(int64_t n, int64_t max_rows) {
  // Between two runs the position is the decoder's whole state.
  if (run_left_ != 0 || pos_ == end_ || max_rows <= 0) return 0;
  const uint8_t* const first = pos_;
  ARROW_ASSIGN_OR_RAISE(const bool is_row, TakeRow(n));
  if (!is_row || run_left_ != 0) {
    pos_ = first;
    run_left_ = 0;
    return 0;
  }
  // Compare each byte with the byte one row earlier.
  const int64_t row_bytes = pos_ - first;
  const uint8_t* const end =
      first + std::min(max_rows, (end_ - first) / row_bytes) * row_bytes;
  while (end - pos_ >= 8 && LoadWord(pos_) == LoadWord(pos_ - row_bytes)) pos_ += 8;
  while (pos_ < end && *pos_ == *(pos_ - row_bytes)) ++pos_;
  const int64_t rows = (pos_ - first) / row_bytes;
  pos_ = first + rows * row_bytes;
  return rows;
}

uint16_t* HybridDecoder::UnpackZeros(int64_t n, int64_t first, uint16_t* at) {
  while (n > 0) {
    const uint8_t* in = packed_ + packed_index_ / 8;
    const int64_t shift = packed_index_ % 8;
    const int64_t count = std::min(n, kWordBits - shift);
    uint64_t word = 0;
    if (end_ - in >= static_cast<int64_t>(sizeof(word))) {
      word = LoadWord(in);
    } else {
      std::memcpy(&word, in, static_cast<size_t>(end_ - in));
    }
    for (uint64_t zeros = ~(word >> shift) & LowBits(count); zeros != 0;
         zeros &= zeros - 1) {
      *at++ = static_cast<uint16_t>(first + std::countr_zero(zeros));
    }
    Consume(count);
    first += count;
    n -= count;
  }
  return at;
}

template <typename Code>
void HybridDecoder::Unpack(int64_t n, Code* out) {
  while (n > 0) {
    const int64_t group = packed_index_ / 8;
    const int64_t offset = packed_index_ % 8;
    const uint8_t* in = packed_ + group * bit_width_;
    if (offset == 0 && n >= 8) {
      int64_t groups = n / 8;
      if (bit_width_ > 0) {
        groups = std::min(groups, (end_ - in - kUnpackSlack) / bit_width_);
      }
      if (groups > 0) {
        UnpackGroups(in, groups, bit_width_, out);
        Consume(groups * 8);
        out += groups * 8;
        n -= groups * 8;
        continue;
      }
    }
    // A part of a group, or a group so near to the end of the page that the kernel would
    // read past the page, is unpacked from a padded copy.
    std::array<uint8_t, 32 + kUnpackSlack> padded{};
    std::array<Code, 8> values;
    const int64_t bytes = std::min<int64_t>(bit_width_, packed_end_ - in);
    if (bytes > 0) std::memcpy(padded.data(), in, static_cast<size_t>(bytes));
    UnpackGroups(padded.data(), 1, bit_width_, values.data());
    const int64_t count = std::min(n, 8 - offset);
    std::copy_n(values.data() + offset, count, out);
    Consume(count);
    out += count;
    n -= count;
  }
}

template <typename Code>
const uint8_t* HybridDecoder::Codes(int64_t n, Code* block) {
  if (bit_width_ == 8 * static_cast<int>(sizeof(Code))) {
    const uint8_t* const codes = packed_ + packed_index_ * sizeof(Code);
    Consume(n);
    return codes;
  }
  Unpack(n, block);
  return reinterpret_cast<const uint8_t*>(block);
}

template Status HybridDecoder::Decode(int64_t n, uint16_t* out);
template Status HybridDecoder::Decode(int64_t n, uint32_t* out);
template const uint8_t* HybridDecoder::Codes(int64_t n, uint16_t* block);
template const uint8_t* HybridDecoder::Codes(int64_t n, uint32_t* block);

void HybridDecoder::UnpackBytes(int64_t n, uint8_t* out) {
  while (n > 0) {
    const int64_t offset = packed_index_ % 8;
    const uint8_t* in = packed_ + packed_index_ / 8;
    int64_t count = n / 8 * 8;
    if (offset == 0 && count > 0) {
      UnpackBits(in, count / 8, out);
    } else {
      std::array<uint8_t, 8> values;
      UnpackBits(in, 1, values.data());
      count = std::min(n, 8 - offset);
      std::copy_n(values.data() + offset, count, out);
    }
    Consume(count);
    out += count;
    n -= count;
  }
}

}  // namespace fastload

#include "fastload/base/status.h"

#include <gtest/gtest.h>

#include <functional>
#include <new>
#include <stdexcept>
#include <string>

namespace fastload {
namespace {

TEST(Status, HasItsKind) {
  EXPECT_EQ(KindOf(MakeError(ErrorKind::kStorage, "no")), ErrorKind::kStorage);
  EXPECT_EQ(KindOf(Status::OK()), std::nullopt);
  EXPECT_EQ(KindOf(Status::Invalid("no")), std::nullopt);
}

TEST(Status, GetsOnePlace) {
  const Location column{"part-003.parquet", 7, "price", -1};
  const Location page{"part-003.parquet", 7, "price", 2};
  const Status status = At(MakeError(ErrorKind::kValue, "Expected X, got Y"), column);
  EXPECT_EQ(status.message(),
            "Expected X, got Y - at part-003.parquet, row group 7, column `price`");
  EXPECT_EQ(KindOf(status), ErrorKind::kValue);
  EXPECT_EQ(At(status, page).message(), status.message());
  EXPECT_TRUE(At(Status::OK(), page).ok());
}

TEST(Status, NamesTheRow) {
  const Status value = MakeError(ErrorKind::kValue, "Expected X, got Y");
  EXPECT_EQ(RowOf(value), std::nullopt);
  const Status fifth = AtRow(value, 5);
  EXPECT_EQ(RowOf(fifth), 5);
  EXPECT_EQ(ValueOf(fifth), std::nullopt);
  const Status both = AtValue(fifth, 7);
  EXPECT_EQ(ValueOf(both), 7);
  EXPECT_EQ(RowOf(both), 5);
  EXPECT_EQ(KindOf(fifth), ErrorKind::kValue);
  EXPECT_EQ(RowOf(AtRow(fifth, 1005)), 1005);
  const Location place{
      .file = "a", .row_group = 1, .column = "b", .page = 2, .row = 1005};
  EXPECT_EQ(At(fifth, place).message(),
            "Expected X, got Y - at a, row group 1, column `b`, page 2, row 1005");
  EXPECT_TRUE(AtRow(Status::OK(), 5).ok());
}

TEST(Status, NamesTheRowGroup) {
  const Status error = MakeError(ErrorKind::kCorruptFile, "no");
  EXPECT_FALSE(RowGroupOf(error));
  EXPECT_FALSE(RowGroupOf(At(error, {.file = "a", .row_group = 1})));
  const Status placed = At(error, {.file = "a", .row_group = 1, .file_index = 2});
  EXPECT_EQ(placed.message(), "no - at a, row group 1");
  ASSERT_TRUE(RowGroupOf(placed));
  EXPECT_EQ(RowGroupOf(placed)->file, 2);
  EXPECT_EQ(RowGroupOf(placed)->row_group, 1);
}

TEST(Status, PlacesErrorsOfArrowOnce) {
  const Location page{"a", -1, "", 2};
  const Status status = At(Status::OutOfMemory("out of memory"), page);
  EXPECT_EQ(status.message(), "out of memory - at a, page 2");
  EXPECT_TRUE(status.IsOutOfMemory());
  EXPECT_EQ(KindOf(status), std::nullopt);
  EXPECT_EQ(At(status, page).message(), status.message());
}

TEST(Status, CatchesWhatIsThrown) {
  const Status corrupt =
      CatchParquet([]() -> Status { throw parquet::ParquetException("bad header"); });
  EXPECT_EQ(KindOf(corrupt), ErrorKind::kCorruptFile);
  EXPECT_EQ(corrupt.message(), "bad header");
  // Codecs refuse bytes with a status of Arrow that has no detail.
  const Status codec = CatchParquet([]() -> Status {
    throw parquet::ParquetStatusException(Status::IOError("bad frame"));
  });
  EXPECT_EQ(KindOf(codec), ErrorKind::kCorruptFile);
  EXPECT_EQ(codec.message(), "bad frame");
  const Status storage = CatchParquet([]() -> Status {
    throw parquet::ParquetStatusException(MakeError(ErrorKind::kStorage, "no"));
  });
  EXPECT_EQ(KindOf(storage), ErrorKind::kStorage);
  const Status unsupported = CatchParquet([]() -> Status {
    throw parquet::ParquetStatusException(Status::NotImplemented("LZO"));
  });
  EXPECT_TRUE(unsupported.IsNotImplemented());
  const Status decoder = CatchParquet([]() -> Status {
    throw parquet::ParquetStatusException(Status::SerializationError("bad block"));
  });
  EXPECT_EQ(KindOf(decoder), ErrorKind::kCorruptFile);
  const Status memory = CatchParquet([]() -> Status { throw std::bad_alloc(); });
  EXPECT_TRUE(memory.IsOutOfMemory());
}

TEST(Status, WhatLibparquetDoesNotThrowIsNoDamageOfAFile) {
  for (const Status& fault :
       {CatchParquet([]() -> Status { throw std::length_error("vector::reserve"); }),
        CatchParquet([]() -> Status { throw std::out_of_range("map::at"); }),
        CatchParquet([]() -> Status { throw std::bad_function_call(); })}) {
    EXPECT_EQ(KindOf(fault), ErrorKind::kInternal) << fault.ToString();
    EXPECT_TRUE(fault.message().starts_with("fastload has a fault: ")) << fault.message();
  }
}

TEST(Status, IsOneLine) {
  const std::string lines = "Couldn't deserialize thrift:\r\n  too long \n\n";
  const std::string line = "Couldn't deserialize thrift: too long";
  EXPECT_EQ(MakeError(ErrorKind::kCorruptFile, lines).message(), line);
  EXPECT_EQ(MakeError(ErrorKind::kCorruptFile, "a\n").message(), "a");
  const Status thrown =
      CatchParquet([&]() -> Status { throw parquet::ParquetException(lines); });
  EXPECT_EQ(thrown.message(), line);
  const Location place{.file = "a.parquet", .column = "two\nlines"};
  EXPECT_EQ(At(thrown, place).message(), line + " - at a.parquet, column `two lines`");
  EXPECT_EQ(At(Status::IOError(lines), place).message(),
            line + " - at a.parquet, column `two lines`");
}

}  // namespace
}  // namespace fastload

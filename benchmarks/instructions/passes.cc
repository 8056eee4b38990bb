// Whole passes: what kernels leave out, such as planning, layout and lists.

#include "passes.h"

#include <memory>
#include <string>
#include <vector>

#include "arrow/api.h"
#include "arrow/io/file.h"
#include "count.h"
#include "fastload/scan/pipeline.h"
#include "parquet/arrow/writer.h"
#include "row_files.h"

namespace fastload::instructions {
namespace {

// A file of ids, prices, words and lists, as pyarrow writes them.
void WriteTable(const std::string& path) {
  arrow::Int64Builder ids;
  arrow::FloatBuilder prices;
  arrow::StringBuilder words;
  auto items = std::make_shared<arrow::Int32Builder>();
  arrow::ListBuilder lists(arrow::default_memory_pool(), items);
  int64_t row = 0;
  for (const int64_t kind : Kinds(5000, 6)) {
    Check(ids.Append(kind));
    Check(prices.Append(static_cast<float>(row++)));
    Check(words.Append("word " + std::to_string(kind & 0xFFF)));
    Check(lists.Append());
    for (int64_t i = 0; i < (kind & 7); ++i)
      Check(items->Append(static_cast<int32_t>(i)));
  }
  const auto schema = arrow::schema({arrow::field("id", arrow::int64(), false),
                                     arrow::field("price", arrow::float32(), false),
                                     arrow::field("word", arrow::utf8(), false),
                                     arrow::field("list", arrow::list(arrow::int32()))});
  const auto table = arrow::Table::Make(
      schema, {*ids.Finish(), *prices.Finish(), *words.Finish(), *lists.Finish()});
  auto properties = parquet::WriterProperties::Builder()
                        .compression(parquet::Compression::SNAPPY)
                        ->disable_dictionary("price")
                        ->build();
  auto sink = *arrow::io::FileOutputStream::Open(path);
  Check(parquet::arrow::WriteTable(*table, arrow::default_memory_pool(), sink, kRows / 2,
                                   properties));
  Check(sink->Close());
}

}  // namespace

void CountPasses() {
  const testing::TemporaryDirectory directory;
  const std::string path = directory.File("table.parquet");
  WriteTable(path);
  const std::vector<FileSpec> files = {testing::SpecOf(path)};
  const auto make = [](const char* name, int32_t leaf, DType dtype) {
    ColumnSpec spec;
    spec.name = name;
    spec.leaves = {leaf};
    spec.dtype = dtype;
    return spec;
  };
  std::vector<ColumnSpec> columns = {
      make("id", 0, DType::kInt64), make("price", 1, DType::kFloat32),
      make("word", 2, DType::kUInt8), make("list", 3, DType::kInt32)};
  columns[2].bytes = true;
  columns[3].depth = 1;
  const std::vector<OutputSpec> outputs = {{OutputKind::kColumn, {0}},
                                           {OutputKind::kColumn, {1}},
                                           {OutputKind::kRagged, {2}},
                                           {OutputKind::kRagged, {3}}};
  for (const bool shuffled : {false, true}) {
    Pipeline pipeline(files, columns, outputs,
                      {.threads = 0,
                       .io_threads = 0,
                       .batch_memory_bytes = 1 << 26,
                       .staging_memory_bytes = 1 << 26,
                       .fetch_memory_bytes = 1 << 26});
    const auto plan =
        testing::CutPlan(testing::AllPieces(files), kRows / 2, 4096, shuffled);
    Count(shuffled ? "pass_shuffled" : "pass_in_order", kRows, [&] {
      auto scan = *pipeline.Start(plan, {.fetch_bytes = 1 << 24});
      Check(testing::Deliver(scan.get()).status);
    });
    pipeline.Close();
  }
}

}  // namespace fastload::instructions

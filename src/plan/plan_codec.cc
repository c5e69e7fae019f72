// The plan's parts as bytes, for messages between ranks.
#include "bytes/wire.h"
#include "plan/chunks/filters.h"
#include "plan/plan.h"

namespace belay {
namespace {

void PutExtent(WireWriter& out, const Extent& extent) {
  out.PutBox(extent.box);
  out.Put(extent.offset);
}

Extent GetExtent(WireReader& in) {
  Extent extent;
  extent.box = in.GetBox();
  extent.offset = in.Get<int64_t>();
  return extent;
}

void PutWrites(WireWriter& out, const RankWrites& writes) {
  out.Put(writes.bytes);
  out.Put<uint64_t>(writes.orders.size());
  for (const WriteOrder& order : writes.orders) {
    out.Put(order.shard);
    out.Put(order.dataset);
    out.Put(order.round);
    out.Put(order.first_block);
    out.PutBox(order.box);
    PutExtent(out, order.extent);
  }
}

RankWrites GetWrites(WireReader& in) {
  RankWrites writes;
  writes.bytes = in.Get<int64_t>();
  writes.orders = in.GetAll<WriteOrder>([&] {
    WriteOrder order;
    order.shard = in.Get<int32_t>();
    order.dataset = in.Get<int32_t>();
    order.round = in.Get<int32_t>();
    order.first_block = in.Get<int64_t>();
    order.box = in.GetBox();
    order.extent = GetExtent(in);
    return order;
  });
  return writes;
}

}  // namespace

std::string EncodeRankWrites(const std::vector<RankWrites>& files) {
  WireWriter out;
  out.Put<uint64_t>(files.size());
  for (const RankWrites& writes : files) PutWrites(out, writes);
  return out.Take();
}

std::vector<RankWrites> DecodeRankWrites(std::string_view bytes) {
  WireReader in(bytes);
  return in.GetAll<RankWrites>([&] { return GetWrites(in); });
}

void PutFiltered(WireWriter& out,
                 const std::vector<FilteredDataset>& datasets) {
  out.Put<uint64_t>(datasets.size());
  for (const FilteredDataset& dataset : datasets) {
    out.PutText(dataset.path);
    out.Put(dataset.dtype);
    out.PutBox(dataset.box);
    out.PutText(FiltersText(dataset.filters));
    out.PutText(dataset.fields);
  }
}

std::vector<FilteredDataset> GetFiltered(WireReader& in) {
  return in.GetAll<FilteredDataset>([&] {
    FilteredDataset dataset;
    dataset.path = in.GetText();
    dataset.dtype = in.Get<DType>();
    dataset.box = in.GetBox();
    dataset.filters = *ParseFilters(in.GetText());
    dataset.fields = in.GetText();
    return dataset;
  });
}

std::string EncodeRankReads(const RankReads& reads) {
  WireWriter out;
  out.Put<uint64_t>(reads.texts.size());
  for (const TextLength& text : reads.texts) out.Put(text);
  out.Put<uint64_t>(reads.orders.size());
  for (const ReadOrder& order : reads.orders) {
    out.Put(order.shard);
    out.Put(order.file);
    out.Put(order.first_block);
    out.PutBox(order.box);
    PutExtent(out, order.extent);
    out.Put(order.position);
    out.Put(order.filtered);
  }
  out.Put<uint64_t>(reads.deliveries.size());
  for (const Delivery& delivery : reads.deliveries) {
    out.Put(delivery.shard);
    out.Put(delivery.reader);
    out.Put(delivery.position);
    out.Put(delivery.bytes);
    out.PutBox(delivery.box);
  }
  return out.Take();
}

std::string EncodeRankTransits(const RankTransits& transits) {
  WireWriter out;
  for (const auto* list : {&transits.sends, &transits.receives}) {
    out.Put<uint64_t>(list->size());
    for (const Transit& transit : *list) out.Put(transit);
  }
  return out.Take();
}

RankTransits DecodeRankTransits(std::string_view bytes) {
  WireReader in(bytes);
  RankTransits transits;
  for (auto* list : {&transits.sends, &transits.receives}) {
    *list = in.GetAll<Transit>([&] { return in.Get<Transit>(); });
  }
  return transits;
}

RankReads DecodeRankReads(std::string_view bytes) {
  WireReader in(bytes);
  RankReads reads;
  reads.texts = in.GetAll<TextLength>([&] { return in.Get<TextLength>(); });
  reads.orders = in.GetAll<ReadOrder>([&] {
    ReadOrder order;
    order.shard = in.Get<int32_t>();
    order.file = in.Get<int32_t>();
    order.first_block = in.Get<int64_t>();
    order.box = in.GetBox();
    order.extent = GetExtent(in);
    order.position = in.Get<int64_t>();
    order.filtered = in.Get<int32_t>();
    return order;
  });
  reads.deliveries = in.GetAll<Delivery>([&] {
    Delivery delivery;
    delivery.shard = in.Get<int32_t>();
    delivery.reader = in.Get<int32_t>();
    delivery.position = in.Get<int64_t>();
    delivery.bytes = in.Get<int64_t>();
    delivery.box = in.GetBox();
    return delivery;
  });
  return reads;
}

}  // namespace belay

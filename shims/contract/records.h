// How records lie in a file; what is in them is in payloads.def (docs/session.md).
//
// A shim appends records to `<session>/<process>/records`. A record is a header, its
// payload, and zero bytes up to the next multiple of 8. All integers are little endian.
//
// Rules for a writer: one append per record (so a killed target leaves at most one torn
// record, at the end); bulk bytes go to their own file first, the record that names them
// after. Rules for a reader: stop at the first record whose magic, length or CRC is off,
// and keep everything before it; skip kinds that are not known.
//
// kerncap/format/contract.py mirrors this header; a test compiles it and compares.
#ifndef KERNCAP_CONTRACT_RECORDS_H
#define KERNCAP_CONTRACT_RECORDS_H

#include <stdint.h>

#define KERNCAP_RECORD_MAGIC 0x5243434BU  // "KCCR"
#define KERNCAP_RECORD_VERSION 1
#define KERNCAP_RECORD_ALIGNMENT 8
#define KERNCAP_RECORD_MAX_PAYLOAD (256U * 1024U * 1024U)

enum kerncap_record_kind {
#define KERNCAP_KIND(name, number) KERNCAP_RECORD_##name = number,
#include "contract/records.def"
#undef KERNCAP_KIND
};

struct kerncap_record_header {
  uint32_t magic;
  uint16_t kind;
  uint16_t version;
  uint64_t payload_bytes;  // without padding
  uint32_t payload_crc32;  // zlib's CRC-32
  uint32_t reserved;       // zero
};

#endif  // KERNCAP_CONTRACT_RECORDS_H

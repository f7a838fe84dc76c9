// The only contract between what runs inside the target and the command line.
//
// A shim appends records to `<session>/<process>/records`. A record is a header, its
// payload, and zero bytes up to the next multiple of 8. All integers are little endian.
//
// Rules for a writer: one append per record (so a killed target leaves at most one torn
// record, at the end); bulk bytes go to their own file first, the record that names them
// after. Rules for a reader: stop at the first record whose magic, length or CRC is off,
// and keep everything before it; skip kinds that are not known.
//
// kerncap/format/records.py mirrors this header; a test compiles it and compares.
#ifndef KERNCAP_RECORDS_H
#define KERNCAP_RECORDS_H

#include <stdint.h>

#define KERNCAP_RECORD_MAGIC 0x5243434BU  // "KCCR"
#define KERNCAP_RECORD_VERSION 1
#define KERNCAP_RECORD_ALIGNMENT 8
#define KERNCAP_RECORD_MAX_PAYLOAD (256U * 1024U * 1024U)

enum kerncap_record_kind {
  KERNCAP_RECORD_PROCESS = 1,     // first record of a process
  KERNCAP_RECORD_SEEN = 2,        // a kernel's first launch in this process
  KERNCAP_RECORD_LAUNCH = 3,      // a chosen launch; its pre-state is on file
  KERNCAP_RECORD_COMPLETE = 4,    // that launch ended; its post-state is on file
  KERNCAP_RECORD_DROPPED = 5,     // that launch did not meet its condition
  KERNCAP_RECORD_FAILED = 6,      // a capture that could not be made, with its reason
  KERNCAP_RECORD_COUNTS = 7,      // launches seen and filtered; the last one counts
  KERNCAP_RECORD_END = 8,         // the process ended in good order
  KERNCAP_RECORD_ANNOTATION = 9,  // what the Triton hook knows of a launch that a native shim captures
  KERNCAP_RECORD_LAST = 10,       // after a fault: the last launches of this process
  KERNCAP_RECORD_PROGRESS = 11    // how far a copy is that takes longer than a second
};

struct kerncap_record_header {
  uint32_t magic;
  uint16_t kind;
  uint16_t version;
  uint64_t payload_bytes;  // without padding
  uint32_t payload_crc32;  // zlib's CRC-32
  uint32_t reserved;       // zero
};

#endif  // KERNCAP_RECORDS_H

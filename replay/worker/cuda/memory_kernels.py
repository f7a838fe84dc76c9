"""The few kernels of our own that work on big regions in place, as PTX text.

Of a driver that does not take them (or has no compiler for PTX) only speed is lost: `bulk` does the same on
the host. Every thread has eight bytes: a word of a region (`pattern`), or a byte of a bitmap (the others).
"""

from __future__ import annotations

THREADS = 256

TEXT = """
.version 6.4
.target sm_52
.address_size 64

// Poison for bytes [offset, offset + size) of a region, to dst. The word number is (offset / 8 + thread).
.visible .entry kerncap_pattern(.param .u64 p_dst, .param .u64 p_offset, .param .u64 p_size,
                                .param .u64 p_key, .param .u64 p_invert)
{
  .reg .pred %p<6>;
  .reg .b32 %r<6>;
  .reg .b64 %d<24>;
  ld.param.u64 %d1, [p_dst];
  ld.param.u64 %d2, [p_offset];
  ld.param.u64 %d3, [p_size];
  ld.param.u64 %d4, [p_key];
  ld.param.u64 %d5, [p_invert];
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  cvt.u64.u32 %d6, %r3;
  mul.wide.u32 %d7, %r1, %r2;
  add.u64 %d6, %d6, %d7;
  shr.u64 %d7, %d2, 3;
  add.u64 %d6, %d6, %d7;          // word
  shl.b64 %d8, %d6, 3;            // its first byte
  add.u64 %d9, %d2, %d3;          // end
  setp.ge.u64 %p1, %d8, %d9;
  @%p1 ret;
  add.u64 %d10, %d6, %d4;
  mul.lo.u64 %d10, %d10, 0x9E3779B97F4A7C15;
  shr.u64 %d11, %d10, 30;
  xor.b64 %d10, %d10, %d11;
  mul.lo.u64 %d10, %d10, 0xBF58476D1CE4E5B9;
  shr.u64 %d11, %d10, 27;
  xor.b64 %d10, %d10, %d11;
  xor.b64 %d10, %d10, %d5;
  sub.u64 %d12, %d8, %d2;
  add.u64 %d12, %d12, %d1;        // where the first byte of the word goes
  and.b64 %d13, %d12, 7;
  add.u64 %d14, %d8, 8;
  setp.ne.u64 %p2, %d13, 0;
  @%p2 bra BYTES;
  setp.lt.u64 %p2, %d8, %d2;
  @%p2 bra BYTES;
  setp.gt.u64 %p2, %d14, %d9;
  @%p2 bra BYTES;
  st.global.u64 [%d12], %d10;
  ret;
BYTES:
  mov.u32 %r4, 0;
NEXT:
  setp.lt.u64 %p3, %d8, %d2;
  @%p3 bra SKIP;
  setp.ge.u64 %p3, %d8, %d9;
  @%p3 bra SKIP;
  st.global.u8 [%d12], %d10;
SKIP:
  shr.u64 %d10, %d10, 8;
  add.u64 %d8, %d8, 1;
  add.u64 %d12, %d12, 1;
  add.u32 %r4, %r4, 1;
  setp.lt.u32 %p4, %r4, 8;
  @%p4 bra NEXT;
  ret;
}

// Which of size bytes differ: one bit each to bitmap, their number added to counter; either may be 0.
.visible .entry kerncap_compare(.param .u64 p_a, .param .u64 p_b, .param .u64 p_size,
                                .param .u64 p_bitmap, .param .u64 p_counter)
{
  .reg .pred %p<6>;
  .reg .b16 %h<4>;
  .reg .b32 %r<10>;
  .reg .b64 %d<24>;
  ld.param.u64 %d1, [p_a];
  ld.param.u64 %d2, [p_b];
  ld.param.u64 %d3, [p_size];
  ld.param.u64 %d4, [p_bitmap];
  ld.param.u64 %d5, [p_counter];
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  cvt.u64.u32 %d6, %r3;
  mul.wide.u32 %d7, %r1, %r2;
  add.u64 %d6, %d6, %d7;          // byte of the bitmap
  shl.b64 %d8, %d6, 3;
  setp.ge.u64 %p1, %d8, %d3;
  @%p1 ret;
  add.u64 %d1, %d1, %d8;
  add.u64 %d2, %d2, %d8;
  mov.u32 %r5, 0;                 // bits found
  or.b64 %d9, %d1, %d2;
  and.b64 %d9, %d9, 7;
  setp.ne.u64 %p2, %d9, 0;
  @%p2 bra BYTES;
  add.u64 %d10, %d8, 8;
  setp.gt.u64 %p2, %d10, %d3;
  @%p2 bra BYTES;
  ld.global.u64 %d11, [%d1];
  ld.global.u64 %d12, [%d2];
  xor.b64 %d11, %d11, %d12;
  setp.eq.u64 %p2, %d11, 0;
  @%p2 bra DONE;
BYTES:
  mov.u32 %r4, 0;
NEXT:
  setp.ge.u64 %p3, %d8, %d3;
  @%p3 bra DONE;
  ld.global.u8 %r6, [%d1];
  ld.global.u8 %r7, [%d2];
  setp.eq.u32 %p3, %r6, %r7;
  @%p3 bra SAME;
  mov.u32 %r8, 1;
  shl.b32 %r8, %r8, %r4;
  or.b32 %r5, %r5, %r8;
SAME:
  add.u64 %d8, %d8, 1;
  add.u64 %d1, %d1, 1;
  add.u64 %d2, %d2, 1;
  add.u32 %r4, %r4, 1;
  setp.lt.u32 %p4, %r4, 8;
  @%p4 bra NEXT;
DONE:
  setp.eq.u64 %p5, %d4, 0;
  @%p5 bra COUNT;
  add.u64 %d13, %d4, %d6;
  st.global.u8 [%d13], %r5;
COUNT:
  setp.eq.u64 %p5, %d5, 0;
  @%p5 ret;
  setp.eq.u32 %p5, %r5, 0;
  @%p5 ret;
  popc.b32 %r9, %r5;
  cvt.u64.u32 %d14, %r9;
  red.global.add.u64 [%d5], %d14;
  ret;
}

// Of size bytes those that the bitmap names, from src to dst.
.visible .entry kerncap_merge(.param .u64 p_dst, .param .u64 p_src, .param .u64 p_size, .param .u64 p_bitmap)
{
  .reg .pred %p<6>;
  .reg .b32 %r<10>;
  .reg .b64 %d<16>;
  ld.param.u64 %d1, [p_dst];
  ld.param.u64 %d2, [p_src];
  ld.param.u64 %d3, [p_size];
  ld.param.u64 %d4, [p_bitmap];
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  cvt.u64.u32 %d6, %r3;
  mul.wide.u32 %d7, %r1, %r2;
  add.u64 %d6, %d6, %d7;
  shl.b64 %d8, %d6, 3;
  setp.ge.u64 %p1, %d8, %d3;
  @%p1 ret;
  add.u64 %d9, %d4, %d6;
  ld.global.u8 %r5, [%d9];
  setp.eq.u32 %p1, %r5, 0;
  @%p1 ret;
  add.u64 %d1, %d1, %d8;
  add.u64 %d2, %d2, %d8;
  mov.u32 %r4, 0;
NEXT:
  setp.ge.u64 %p3, %d8, %d3;
  @%p3 ret;
  and.b32 %r6, %r5, 1;
  setp.eq.u32 %p4, %r6, 0;
  @%p4 bra SKIP;
  ld.global.u8 %r7, [%d2];
  st.global.u8 [%d1], %r7;
SKIP:
  shr.u32 %r5, %r5, 1;
  add.u64 %d8, %d8, 1;
  add.u64 %d1, %d1, 1;
  add.u64 %d2, %d2, 1;
  add.u32 %r4, %r4, 1;
  setp.lt.u32 %p5, %r4, 8;
  @%p5 bra NEXT;
  ret;
}

// Copies size bytes if counters[run] is the first counter that is not 0: of the first run that went wrong.
.visible .entry kerncap_keep(.param .u64 p_dst, .param .u64 p_src, .param .u64 p_size,
                             .param .u64 p_counters, .param .u64 p_run)
{
  .reg .pred %p<6>;
  .reg .b32 %r<10>;
  .reg .b64 %d<20>;
  ld.param.u64 %d4, [p_counters];
  ld.param.u64 %d5, [p_run];
  shl.b64 %d6, %d5, 3;
  add.u64 %d7, %d4, %d6;
  ld.global.u64 %d8, [%d7];
  setp.eq.u64 %p1, %d8, 0;
  @%p1 ret;
EARLIER:
  setp.ge.u64 %p2, %d4, %d7;
  @%p2 bra COPY;
  ld.global.u64 %d8, [%d4];
  setp.ne.u64 %p3, %d8, 0;
  @%p3 ret;
  add.u64 %d4, %d4, 8;
  bra EARLIER;
COPY:
  ld.param.u64 %d1, [p_dst];
  ld.param.u64 %d2, [p_src];
  ld.param.u64 %d3, [p_size];
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  cvt.u64.u32 %d9, %r3;
  mul.wide.u32 %d10, %r1, %r2;
  add.u64 %d9, %d9, %d10;
  shl.b64 %d9, %d9, 3;
  add.u64 %d1, %d1, %d9;
  add.u64 %d2, %d2, %d9;
  mov.u32 %r4, 0;
NEXT:
  setp.ge.u64 %p3, %d9, %d3;
  @%p3 ret;
  ld.global.u8 %r7, [%d2];
  st.global.u8 [%d1], %r7;
  add.u64 %d9, %d9, 1;
  add.u64 %d1, %d1, 1;
  add.u64 %d2, %d2, 1;
  add.u32 %r4, %r4, 1;
  setp.lt.u32 %p5, %r4, 8;
  @%p5 bra NEXT;
  ret;
}

// Keeps the device busy until *released reaches number, but no longer than that many nanoseconds: what is
// queued meanwhile does not wait for the host.
.visible .entry kerncap_hold(.param .u64 p_released, .param .u64 p_number, .param .u64 p_ns)
{
  .reg .pred %p<3>;
  .reg .b64 %d<8>;
  ld.param.u64 %d1, [p_released];
  ld.param.u64 %d2, [p_number];
  ld.param.u64 %d3, [p_ns];
  mov.u64 %d4, %globaltimer;
WAIT:
  ld.volatile.global.u64 %d5, [%d1];
  setp.ge.u64 %p1, %d5, %d2;
  @%p1 ret;
  mov.u64 %d6, %globaltimer;
  sub.u64 %d7, %d6, %d4;
  setp.lt.u64 %p2, %d7, %d3;
  @%p2 bra WAIT;
  ret;
}
"""

// Made by regenerate.sh from snapshot.cu: PTX of the shim's own kernels.
#ifndef KERNCAP_CUDA_KERNELS_SNAPSHOT_PTX_H
#define KERNCAP_CUDA_KERNELS_SNAPSHOT_PTX_H

namespace kerncap::cuda {

constexpr char snapshot_ptx[] = R"ptx(
.version 6.4
.target sm_52
.address_size 64
.visible .entry kerncap_fingerprint(
	.param .u64 kerncap_fingerprint_param_0,
	.param .u64 kerncap_fingerprint_param_1,
	.param .u64 kerncap_fingerprint_param_2,
	.param .u64 kerncap_fingerprint_param_3,
	.param .u64 kerncap_fingerprint_param_4
)
.maxntid 256, 1, 1
{
	.reg .pred 	%p<19>;
	.reg .b32 	%r<27>;
	.reg .b64 	%rd<301>;
	.shared .align 8 .b8 _ZZ19kerncap_fingerprintE4sums[6144];
	ld.param.u64 	%rd56, [kerncap_fingerprint_param_0];
	ld.param.u64 	%rd57, [kerncap_fingerprint_param_1];
	ld.param.u64 	%rd58, [kerncap_fingerprint_param_2];
	ld.param.u64 	%rd59, [kerncap_fingerprint_param_3];
	ld.param.u64 	%rd60, [kerncap_fingerprint_param_4];
	mov.u32 	%r2, %ctaid.x;
	cvt.u64.u32 	%rd64, %r2;
	add.s64 	%rd65, %rd64, %rd59;
	mul.lo.s64 	%rd1, %rd65, %rd58;
	sub.s64 	%rd66, %rd57, %rd1;
	min.u64 	%rd67, %rd66, %rd58;
	shr.u64 	%rd68, %rd67, 3;
	mov.u32 	%r3, %tid.x;
	cvt.u64.u32 	%rd2, %r3;
	setp.le.u64 	%p1, %rd68, %rd2;
	mov.u64 	%rd292, 0;
	mov.u64 	%rd293, %rd292;
	mov.u64 	%rd294, %rd292;
	@%p1 bra 	$L__BB0_7;
	not.b64 	%rd73, %rd2;
	add.s64 	%rd80, %rd68, %rd73;
	shr.u64 	%rd81, %rd80, 8;
	add.s64 	%rd3, %rd81, 1;
	and.b64  	%rd4, %rd3, 3;
	setp.lt.u64 	%p2, %rd80, 768;
	mov.u64 	%rd294, 0;
	mov.u64 	%rd282, %rd2;
	mov.u64 	%rd293, %rd294;
	mov.u64 	%rd292, %rd294;
	@%p2 bra 	$L__BB0_4;
	sub.s64 	%rd278, %rd3, %rd4;
	cvta.to.global.u64 	%rd85, %rd56;
	add.s64 	%rd6, %rd85, %rd1;
	mov.u64 	%rd294, 0;
	mov.u64 	%rd282, %rd2;
$L__BB0_3:
	shl.b64 	%rd86, %rd282, 3;
	add.s64 	%rd87, %rd6, %rd86;
	mul.lo.s64 	%rd88, %rd282, -7046029254386353131;
	ld.global.u64 	%rd89, [%rd87];
	add.s64 	%rd90, %rd88, %rd89;
	add.s64 	%rd91, %rd90, -7046029254386353131;
	shr.u64 	%rd92, %rd91, 32;
	xor.b64  	%rd93, %rd92, %rd91;
	mul.lo.s64 	%rd94, %rd93, -49064778989728563;
	shr.u64 	%rd95, %rd94, 29;
	xor.b64  	%rd96, %rd95, %rd94;
	add.s64 	%rd97, %rd96, %rd292;
	mul.lo.s64 	%rd98, %rd96, -4265267296055464877;
	shr.u64 	%rd99, %rd98, 32;
	xor.b64  	%rd100, %rd99, %rd98;
	add.s64 	%rd101, %rd100, %rd293;
	or.b64  	%rd102, %rd89, %rd294;
	ld.global.u64 	%rd103, [%rd87+2048];
	add.s64 	%rd104, %rd88, %rd103;
	add.s64 	%rd105, %rd104, -3048599153756696299;
	shr.u64 	%rd106, %rd105, 32;
	xor.b64  	%rd107, %rd106, %rd105;
	mul.lo.s64 	%rd108, %rd107, -49064778989728563;
	shr.u64 	%rd109, %rd108, 29;
	xor.b64  	%rd110, %rd109, %rd108;
	add.s64 	%rd111, %rd110, %rd97;
	mul.lo.s64 	%rd112, %rd110, -4265267296055464877;
	shr.u64 	%rd113, %rd112, 32;
	xor.b64  	%rd114, %rd113, %rd112;
	add.s64 	%rd115, %rd114, %rd101;
	or.b64  	%rd116, %rd103, %rd102;
	ld.global.u64 	%rd117, [%rd87+4096];
	add.s64 	%rd118, %rd88, %rd117;
	add.s64 	%rd119, %rd118, 948830946872960533;
	shr.u64 	%rd120, %rd119, 32;
	xor.b64  	%rd121, %rd120, %rd119;
	mul.lo.s64 	%rd122, %rd121, -49064778989728563;
	shr.u64 	%rd123, %rd122, 29;
	xor.b64  	%rd124, %rd123, %rd122;
	add.s64 	%rd125, %rd124, %rd111;
	mul.lo.s64 	%rd126, %rd124, -4265267296055464877;
	shr.u64 	%rd127, %rd126, 32;
	xor.b64  	%rd128, %rd127, %rd126;
	add.s64 	%rd129, %rd128, %rd115;
	or.b64  	%rd130, %rd117, %rd116;
	ld.global.u64 	%rd131, [%rd87+6144];
	add.s64 	%rd132, %rd88, %rd131;
	add.s64 	%rd133, %rd132, 4946261047502617365;
	shr.u64 	%rd134, %rd133, 32;
	xor.b64  	%rd135, %rd134, %rd133;
	mul.lo.s64 	%rd136, %rd135, -49064778989728563;
	shr.u64 	%rd137, %rd136, 29;
	xor.b64  	%rd138, %rd137, %rd136;
	add.s64 	%rd292, %rd138, %rd125;
	mul.lo.s64 	%rd139, %rd138, -4265267296055464877;
	shr.u64 	%rd140, %rd139, 32;
	xor.b64  	%rd141, %rd140, %rd139;
	add.s64 	%rd293, %rd141, %rd129;
	or.b64  	%rd294, %rd131, %rd130;
	add.s64 	%rd282, %rd282, 1024;
	add.s64 	%rd278, %rd278, -4;
	setp.ne.s64 	%p3, %rd278, 0;
	@%p3 bra 	$L__BB0_3;
$L__BB0_4:
	setp.eq.s64 	%p4, %rd4, 0;
	@%p4 bra 	$L__BB0_7;
	mul.lo.s64 	%rd142, %rd282, 7046029254386353131;
	mov.u64 	%rd143, -7046029254386353131;
	sub.s64 	%rd288, %rd143, %rd142;
	shl.b64 	%rd147, %rd282, 3;
	add.s64 	%rd148, %rd1, %rd147;
	cvta.to.global.u64 	%rd149, %rd56;
	add.s64 	%rd287, %rd149, %rd148;
	neg.s64 	%rd286, %rd4;
$L__BB0_6:
	.pragma "nounroll";
	ld.global.u64 	%rd150, [%rd287];
	add.s64 	%rd151, %rd288, %rd150;
	shr.u64 	%rd152, %rd151, 32;
	xor.b64  	%rd153, %rd152, %rd151;
	mul.lo.s64 	%rd154, %rd153, -49064778989728563;
	shr.u64 	%rd155, %rd154, 29;
	xor.b64  	%rd156, %rd155, %rd154;
	add.s64 	%rd292, %rd156, %rd292;
	mul.lo.s64 	%rd157, %rd156, -4265267296055464877;
	shr.u64 	%rd158, %rd157, 32;
	xor.b64  	%rd159, %rd158, %rd157;
	add.s64 	%rd293, %rd159, %rd293;
	or.b64  	%rd294, %rd150, %rd294;
	add.s64 	%rd288, %rd288, 3997430100629656832;
	add.s64 	%rd287, %rd287, 2048;
	add.s64 	%rd286, %rd286, 1;
	setp.ne.s64 	%p5, %rd286, 0;
	@%p5 bra 	$L__BB0_6;
$L__BB0_7:
	cvt.u32.u64 	%r6, %rd2;
	setp.ne.s32 	%p6, %r6, 0;
	and.b64  	%rd42, %rd67, 7;
	setp.eq.s64 	%p7, %rd42, 0;
	or.pred  	%p8, %p6, %p7;
	@%p8 bra 	$L__BB0_11;
	and.b64  	%rd173, %rd67, -8;
	add.s64 	%rd174, %rd173, %rd1;
	cvta.to.global.u64 	%rd175, %rd56;
	add.s64 	%rd43, %rd175, %rd174;
	mov.u64 	%rd295, 0;
	mov.u64 	%rd296, %rd295;
	mov.u64 	%rd297, %rd295;
$L__BB0_9:
	add.s64 	%rd176, %rd43, %rd296;
	ld.global.u8 	%rd177, [%rd176];
	cvt.u32.u64 	%r9, %rd295;
	shl.b64 	%rd178, %rd177, %r9;
	or.b64  	%rd297, %rd178, %rd297;
	add.s64 	%rd295, %rd295, 8;
	add.s64 	%rd296, %rd296, 1;
	setp.lt.u64 	%p9, %rd296, %rd42;
	@%p9 bra 	$L__BB0_9;
	mul.lo.s64 	%rd185, %rd68, -7046029254386353131;
	add.s64 	%rd186, %rd185, %rd297;
	add.s64 	%rd187, %rd186, -7046029254386353131;
	shr.u64 	%rd188, %rd187, 32;
	xor.b64  	%rd189, %rd188, %rd187;
	mul.lo.s64 	%rd190, %rd189, -49064778989728563;
	shr.u64 	%rd191, %rd190, 29;
	xor.b64  	%rd192, %rd191, %rd190;
	add.s64 	%rd292, %rd192, %rd292;
	mul.lo.s64 	%rd193, %rd192, -4265267296055464877;
	shr.u64 	%rd194, %rd193, 32;
	xor.b64  	%rd195, %rd194, %rd193;
	add.s64 	%rd293, %rd195, %rd293;
	or.b64  	%rd294, %rd297, %rd294;
$L__BB0_11:
	shl.b32 	%r12, %r6, 3;
	mov.u32 	%r13, _ZZ19kerncap_fingerprintE4sums;
	add.s32 	%r1, %r13, %r12;
	st.shared.u64 	[%r1], %rd292;
	st.shared.u64 	[%r1+2048], %rd293;
	st.shared.u64 	[%r1+4096], %rd294;
	bar.sync 	0;
	setp.gt.u32 	%p10, %r6, 127;
	@%p10 bra 	$L__BB0_13;
	ld.shared.u64 	%rd196, [%r1];
	ld.shared.u64 	%rd197, [%r1+1024];
	add.s64 	%rd198, %rd196, %rd197;
	st.shared.u64 	[%r1], %rd198;
	ld.shared.u64 	%rd199, [%r1+2048];
	ld.shared.u64 	%rd200, [%r1+3072];
	add.s64 	%rd201, %rd199, %rd200;
	st.shared.u64 	[%r1+2048], %rd201;
	ld.shared.u64 	%rd202, [%r1+4096];
	ld.shared.u64 	%rd203, [%r1+5120];
	or.b64  	%rd204, %rd202, %rd203;
	st.shared.u64 	[%r1+4096], %rd204;
$L__BB0_13:
	bar.sync 	0;
	setp.gt.u32 	%p11, %r6, 63;
	@%p11 bra 	$L__BB0_15;
	ld.shared.u64 	%rd205, [%r1];
	ld.shared.u64 	%rd206, [%r1+512];
	add.s64 	%rd207, %rd205, %rd206;
	st.shared.u64 	[%r1], %rd207;
	ld.shared.u64 	%rd208, [%r1+2048];
	ld.shared.u64 	%rd209, [%r1+2560];
	add.s64 	%rd210, %rd208, %rd209;
	st.shared.u64 	[%r1+2048], %rd210;
	ld.shared.u64 	%rd211, [%r1+4096];
	ld.shared.u64 	%rd212, [%r1+4608];
	or.b64  	%rd213, %rd211, %rd212;
	st.shared.u64 	[%r1+4096], %rd213;
$L__BB0_15:
	bar.sync 	0;
	setp.gt.u32 	%p12, %r6, 31;
	@%p12 bra 	$L__BB0_17;
	ld.shared.u64 	%rd214, [%r1];
	ld.shared.u64 	%rd215, [%r1+256];
	add.s64 	%rd216, %rd214, %rd215;
	st.shared.u64 	[%r1], %rd216;
	ld.shared.u64 	%rd217, [%r1+2048];
	ld.shared.u64 	%rd218, [%r1+2304];
	add.s64 	%rd219, %rd217, %rd218;
	st.shared.u64 	[%r1+2048], %rd219;
	ld.shared.u64 	%rd220, [%r1+4096];
	ld.shared.u64 	%rd221, [%r1+4352];
	or.b64  	%rd222, %rd220, %rd221;
	st.shared.u64 	[%r1+4096], %rd222;
$L__BB0_17:
	bar.sync 	0;
	setp.gt.u32 	%p13, %r6, 15;
	@%p13 bra 	$L__BB0_19;
	ld.shared.u64 	%rd223, [%r1];
	ld.shared.u64 	%rd224, [%r1+128];
	add.s64 	%rd225, %rd223, %rd224;
	st.shared.u64 	[%r1], %rd225;
	ld.shared.u64 	%rd226, [%r1+2048];
	ld.shared.u64 	%rd227, [%r1+2176];
	add.s64 	%rd228, %rd226, %rd227;
	st.shared.u64 	[%r1+2048], %rd228;
	ld.shared.u64 	%rd229, [%r1+4096];
	ld.shared.u64 	%rd230, [%r1+4224];
	or.b64  	%rd231, %rd229, %rd230;
	st.shared.u64 	[%r1+4096], %rd231;
$L__BB0_19:
	bar.sync 	0;
	setp.gt.u32 	%p14, %r6, 7;
	@%p14 bra 	$L__BB0_21;
	ld.shared.u64 	%rd232, [%r1];
	ld.shared.u64 	%rd233, [%r1+64];
	add.s64 	%rd234, %rd232, %rd233;
	st.shared.u64 	[%r1], %rd234;
	ld.shared.u64 	%rd235, [%r1+2048];
	ld.shared.u64 	%rd236, [%r1+2112];
	add.s64 	%rd237, %rd235, %rd236;
	st.shared.u64 	[%r1+2048], %rd237;
	ld.shared.u64 	%rd238, [%r1+4096];
	ld.shared.u64 	%rd239, [%r1+4160];
	or.b64  	%rd240, %rd238, %rd239;
	st.shared.u64 	[%r1+4096], %rd240;
$L__BB0_21:
	bar.sync 	0;
	setp.gt.u32 	%p15, %r6, 3;
	@%p15 bra 	$L__BB0_23;
	ld.shared.u64 	%rd241, [%r1];
	ld.shared.u64 	%rd242, [%r1+32];
	add.s64 	%rd243, %rd241, %rd242;
	st.shared.u64 	[%r1], %rd243;
	ld.shared.u64 	%rd244, [%r1+2048];
	ld.shared.u64 	%rd245, [%r1+2080];
	add.s64 	%rd246, %rd244, %rd245;
	st.shared.u64 	[%r1+2048], %rd246;
	ld.shared.u64 	%rd247, [%r1+4096];
	ld.shared.u64 	%rd248, [%r1+4128];
	or.b64  	%rd249, %rd247, %rd248;
	st.shared.u64 	[%r1+4096], %rd249;
$L__BB0_23:
	bar.sync 	0;
	setp.gt.u32 	%p16, %r6, 1;
	@%p16 bra 	$L__BB0_25;
	ld.shared.u64 	%rd250, [%r1];
	ld.shared.u64 	%rd251, [%r1+16];
	add.s64 	%rd252, %rd250, %rd251;
	st.shared.u64 	[%r1], %rd252;
	ld.shared.u64 	%rd253, [%r1+2048];
	ld.shared.u64 	%rd254, [%r1+2064];
	add.s64 	%rd255, %rd253, %rd254;
	st.shared.u64 	[%r1+2048], %rd255;
	ld.shared.u64 	%rd256, [%r1+4096];
	ld.shared.u64 	%rd257, [%r1+4112];
	or.b64  	%rd258, %rd256, %rd257;
	st.shared.u64 	[%r1+4096], %rd258;
$L__BB0_25:
	bar.sync 	0;
	@%p6 bra 	$L__BB0_27;
	ld.shared.u64 	%rd259, [_ZZ19kerncap_fingerprintE4sums+8];
	ld.shared.u64 	%rd260, [%r1];
	add.s64 	%rd261, %rd260, %rd259;
	st.shared.u64 	[%r1], %rd261;
	ld.shared.u64 	%rd262, [%r1+2048];
	ld.shared.u64 	%rd263, [_ZZ19kerncap_fingerprintE4sums+2056];
	add.s64 	%rd264, %rd262, %rd263;
	st.shared.u64 	[%r1+2048], %rd264;
	ld.shared.u64 	%rd265, [%r1+4096];
	ld.shared.u64 	%rd266, [_ZZ19kerncap_fingerprintE4sums+4104];
	or.b64  	%rd267, %rd265, %rd266;
	st.shared.u64 	[%r1+4096], %rd267;
$L__BB0_27:
	bar.sync 	0;
	setp.gt.u32 	%p18, %r6, 2;
	@%p18 bra 	$L__BB0_29;
	shl.b32 	%r23, %r6, 11;
	add.s32 	%r25, %r13, %r23;
	ld.shared.u64 	%rd268, [%r25];
	mul.wide.u32 	%rd269, %r2, 3;
	add.s64 	%rd270, %rd269, %rd2;
	cvta.to.global.u64 	%rd271, %rd60;
	shl.b64 	%rd272, %rd270, 3;
	add.s64 	%rd273, %rd271, %rd272;
	st.global.u64 	[%rd273], %rd268;
$L__BB0_29:
	ret;
}
.visible .entry kerncap_scan(
	.param .u64 kerncap_scan_param_0,
	.param .u64 kerncap_scan_param_1,
	.param .u64 kerncap_scan_param_2,
	.param .u64 kerncap_scan_param_3,
	.param .u64 kerncap_scan_param_4
)
.maxntid 256, 1, 1
{
	.reg .pred 	%p<10>;
	.reg .b32 	%r<4>;
	.reg .b64 	%rd<50>;
	ld.param.u64 	%rd16, [kerncap_scan_param_0];
	ld.param.u64 	%rd17, [kerncap_scan_param_1];
	ld.param.u64 	%rd20, [kerncap_scan_param_2];
	ld.param.u64 	%rd18, [kerncap_scan_param_3];
	ld.param.u64 	%rd19, [kerncap_scan_param_4];
	cvta.to.global.u64 	%rd1, %rd20;
	ld.global.u64 	%rd2, [%rd1];
	mov.u32 	%r1, %nctaid.x;
	mul.wide.u32 	%rd3, %r1, 256;
	mov.u32 	%r2, %ctaid.x;
	mul.wide.u32 	%rd21, %r2, 256;
	mov.u32 	%r3, %tid.x;
	cvt.u64.u32 	%rd22, %r3;
	add.s64 	%rd46, %rd21, %rd22;
	setp.ge.u64 	%p1, %rd46, %rd17;
	@%p1 bra 	$L__BB1_11;
	setp.eq.s64 	%p2, %rd18, 0;
	@%p2 bra 	$L__BB1_10;
	shl.b64 	%rd23, %rd18, 4;
	add.s64 	%rd24, %rd1, %rd23;
	ld.global.u64 	%rd25, [%rd24+-8];
	cvta.to.global.u64 	%rd5, %rd16;
	sub.s64 	%rd6, %rd25, %rd2;
	cvta.to.global.u64 	%rd40, %rd19;
$L__BB1_3:
	shl.b64 	%rd26, %rd46, 3;
	add.s64 	%rd27, %rd5, %rd26;
	ld.global.u64 	%rd8, [%rd27];
	sub.s64 	%rd28, %rd8, %rd2;
	setp.ge.u64 	%p3, %rd28, %rd6;
	@%p3 bra 	$L__BB1_9;
	mov.u64 	%rd48, 0;
	mov.u64 	%rd47, %rd18;
$L__BB1_5:
	add.s64 	%rd30, %rd47, %rd48;
	shr.u64 	%rd31, %rd30, 1;
	shl.b64 	%rd32, %rd30, 3;
	and.b64  	%rd33, %rd32, -16;
	add.s64 	%rd34, %rd1, %rd33;
	ld.global.u64 	%rd35, [%rd34+8];
	setp.le.u64 	%p4, %rd35, %rd8;
	add.s64 	%rd36, %rd31, 1;
	selp.b64 	%rd48, %rd36, %rd48, %p4;
	selp.b64 	%rd47, %rd47, %rd31, %p4;
	setp.lt.u64 	%p5, %rd48, %rd47;
	@%p5 bra 	$L__BB1_5;
	setp.ge.u64 	%p6, %rd48, %rd18;
	@%p6 bra 	$L__BB1_9;
	shl.b64 	%rd37, %rd48, 4;
	add.s64 	%rd38, %rd1, %rd37;
	ld.global.u64 	%rd39, [%rd38];
	setp.gt.u64 	%p7, %rd39, %rd8;
	@%p7 bra 	$L__BB1_9;
	shl.b64 	%rd41, %rd48, 3;
	add.s64 	%rd42, %rd40, %rd41;
	add.s64 	%rd44, %rd16, %rd26;
	atom.global.min.u64 	%rd45, [%rd42], %rd44;
$L__BB1_9:
	add.s64 	%rd46, %rd46, %rd3;
	setp.lt.u64 	%p8, %rd46, %rd17;
	@%p8 bra 	$L__BB1_3;
	bra.uni 	$L__BB1_11;
$L__BB1_10:
	add.s64 	%rd46, %rd46, %rd3;
	setp.lt.u64 	%p9, %rd46, %rd17;
	@%p9 bra 	$L__BB1_10;
$L__BB1_11:
	ret;
}
.visible .entry kerncap_copy(
	.param .u64 kerncap_copy_param_0,
	.param .u64 kerncap_copy_param_1,
	.param .u64 kerncap_copy_param_2
)
.maxntid 256, 1, 1
{
	.reg .pred 	%p<6>;
	.reg .b16 	%rs<2>;
	.reg .b32 	%r<4>;
	.reg .b64 	%rd<28>;
	ld.param.u64 	%rd12, [kerncap_copy_param_0];
	ld.param.u64 	%rd13, [kerncap_copy_param_1];
	ld.param.u64 	%rd11, [kerncap_copy_param_2];
	cvta.to.global.u64 	%rd1, %rd12;
	cvta.to.global.u64 	%rd2, %rd13;
	mov.u32 	%r1, %ctaid.x;
	mul.wide.u32 	%rd14, %r1, 256;
	mov.u32 	%r2, %tid.x;
	cvt.u64.u32 	%rd15, %r2;
	add.s64 	%rd3, %rd14, %rd15;
	mov.u32 	%r3, %nctaid.x;
	mul.wide.u32 	%rd4, %r3, 256;
	or.b64  	%rd16, %rd13, %rd12;
	and.b64  	%rd17, %rd16, 7;
	setp.eq.s64 	%p1, %rd17, 0;
	shr.u64 	%rd18, %rd11, 3;
	selp.b64 	%rd5, %rd18, 0, %p1;
	setp.ge.u64 	%p2, %rd3, %rd5;
	@%p2 bra 	$L__BB2_3;
	mov.u64 	%rd26, %rd3;
$L__BB2_2:
	shl.b64 	%rd19, %rd26, 3;
	add.s64 	%rd20, %rd2, %rd19;
	ld.global.u64 	%rd21, [%rd20];
	add.s64 	%rd22, %rd1, %rd19;
	st.global.u64 	[%rd22], %rd21;
	add.s64 	%rd26, %rd26, %rd4;
	setp.lt.u64 	%p3, %rd26, %rd5;
	@%p3 bra 	$L__BB2_2;
$L__BB2_3:
	shl.b64 	%rd23, %rd5, 3;
	add.s64 	%rd27, %rd23, %rd3;
	setp.ge.u64 	%p4, %rd27, %rd11;
	@%p4 bra 	$L__BB2_5;
$L__BB2_4:
	add.s64 	%rd24, %rd2, %rd27;
	ld.global.u8 	%rs1, [%rd24];
	add.s64 	%rd25, %rd1, %rd27;
	st.global.u8 	[%rd25], %rs1;
	add.s64 	%rd27, %rd27, %rd4;
	setp.lt.u64 	%p5, %rd27, %rd11;
	@%p5 bra 	$L__BB2_4;
$L__BB2_5:
	ret;
}
.visible .entry kerncap_stop(
	.param .u64 kerncap_stop_param_0,
	.param .u64 kerncap_stop_param_1
)
.maxntid 1, 1, 1
{
	.reg .pred 	%p<2>;
	.reg .b64 	%rd<7>;
	ld.param.u64 	%rd3, [kerncap_stop_param_0];
	ld.param.u64 	%rd4, [kerncap_stop_param_1];
	cvta.to.global.u64 	%rd1, %rd3;
	ld.volatile.global.u64 	%rd5, [%rd1];
	add.s64 	%rd2, %rd5, 1;
	st.volatile.global.u64 	[%rd1+8], %rd4;
	membar.sys;
	st.volatile.global.u64 	[%rd1], %rd2;
$L__BB3_1:
	ld.volatile.global.u64 	%rd6, [%rd1+16];
	setp.lt.u64 	%p1, %rd6, %rd2;
	@%p1 bra 	$L__BB3_1;
	membar.sys;
	ret;
}
)ptx";

}  // namespace kerncap::cuda

#endif  // KERNCAP_CUDA_KERNELS_SNAPSHOT_PTX_H

#include "textflag.h"

// Numbers of system calls and their constants are the kernel's for amd64.

// func begin(p *plan, stack *uint64) int
TEXT ·begin(SB), NOSPLIT, $0-24
	MOVQ p+0(FP), R12        // the kernel keeps R12 in both
	MOVQ $0x100, DI          // CLONE_VM; no signal to the parent when the keeper ends
	MOVQ stack+8(FP), SI
	XORL DX, DX
	XORL R10, R10
	XORL R8, R8
	MOVL $56, AX             // clone
	SYSCALL
	TESTQ AX, AX
	JEQ  keeper
	MOVQ AX, ret+16(FP)
	RET

keeper:
	MOVL $157, AX            // prctl(PR_SET_PDEATHSIG, wakeSignal)
	MOVL $1, DI
	MOVL $50, SI
	XORL DX, DX
	XORL R10, R10
	XORL R8, R8
	SYSCALL
	MOVL $157, AX            // prctl(PR_SET_NAME, plan.name)
	MOVL $15, DI
	LEAQ 32(R12), SI
	SYSCALL
	MOVL $436, AX            // close_range(0, all, 0)
	XORL DI, DI
	MOVL $0xffffffff, SI
	XORL DX, DX
	SYSCALL

	MOVL $80, AX             // chdir("/"): where the server was can be unmounted
	LEAQ 64(R12), DI
	SYSCALL

look:
	MOVL $110, AX            // getppid
	SYSCALL
	CMPQ AX, 0(R12)
	JNE  rest                // other threads may still be ending
	MOVL $128, AX            // rt_sigtimedwait(plan.wake, no info, plan.look)
	LEAQ 8(R12), DI
	XORL SI, SI
	LEAQ 48(R12), DX
	MOVL $8, R10
	SYSCALL
	CMPQ AX, $-11            // EAGAIN: the time is over
	JEQ  look
	CMPQ AX, $50
	JEQ  rest
	MOVL $35, AX             // nanosleep(plan.rest): EINTR, as after SIGCONT, or the call is refused
	LEAQ 16(R12), DI
	XORL SI, SI
	SYSCALL
	JMP  look

rest:
	MOVL $35, AX             // nanosleep(plan.rest)
	LEAQ 16(R12), DI
	XORL SI, SI
	SYSCALL
	MOVL $231, AX            // exit_group(0)
	XORL DI, DI
	SYSCALL
	INT  $3

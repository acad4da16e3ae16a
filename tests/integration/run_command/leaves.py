# SPDX-License-Identifier: Apache-2.0
"""A Python program that uses CUDA's driver and leaves as its argument says; run_leaves_test.cpp compares it with itself
untraced. Each process prints how many memsets it has done on the GPU. Where LEAVES_AT is set, the program also writes
to stderr when it has nothing more to do (ms since 1970)."""
import ctypes
import multiprocessing
import os
import signal
import sys
import threading
import time


def work(count):
    cuda = ctypes.CDLL("libcuda.so.1")
    context, memory = ctypes.c_void_p(), ctypes.c_uint64()
    assert cuda.cuInit(0) == 0
    assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert cuda.cuCtxSetCurrent(context) == 0
    assert cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(4096)) == 0
    for _ in range(count):
        assert cuda.cuMemsetD8Async(memory, ctypes.c_ubyte(0), ctypes.c_size_t(4096), None) == 0
    assert cuda.cuCtxSynchronize() == 0
    os.write(1, b"memset %d\n" % count)


def run_children(method):
    context = multiprocessing.get_context(method)
    children = [context.Process(target=work, args=(30,)) for _ in range(3)]
    for child in children:
        child.start()
        child.join()
    os.write(1, b"ended %s\n" % str([child.exitcode for child in children]).encode())
    say_when()


def say_when():
    if "LEAVES_AT" in os.environ:
        os.write(2, b"leaves at %d\n" % (time.time_ns() // 1000000))


def send_soon(number):
    def send():
        say_when()
        os.kill(os.getpid(), number)

    threading.Timer(0.3, send).start()


def main(how):
    if how in ("fork", "forkserver"):
        return run_children(how)
    work(30)
    if how == "os._exit":
        say_when()
        os._exit(5)
    if how == "interrupt":
        send_soon(signal.SIGINT)
        try:
            time.sleep(20)
        except KeyboardInterrupt:
            print("KeyboardInterrupt", flush=True)
        sys.exit(6)
    if how == "uncaught":
        send_soon(signal.SIGINT)
        time.sleep(20)
    if how == "terminate":
        send_soon(signal.SIGTERM)
        time.sleep(20)
    if how == "handled":
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
        send_soon(signal.SIGTERM)
        time.sleep(20)
    if how == "asked":
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGABRT):
            print(number, signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler), flush=True)
            signal.signal(number, signal.SIG_IGN)
            print(signal.signal(number, signal.SIG_DFL), signal.getsignal(number), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])

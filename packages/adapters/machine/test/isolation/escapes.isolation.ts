/** A hostile program in a box: the particulars of what it gets to see and to hear. See `Attempts` for what it is after. */
import { assert, describe, it } from "@effect/vitest"
import { SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import * as SandboxHostContract from "@slipway/testing/contracts/sandbox/SandboxHostContract"
import { Effect, Stream } from "effect"
import { mkdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from "node:fs"
import { getPriority } from "node:os"
import { join } from "node:path"
import { freshId, layer, run } from "../../testing/hosts/bubblewrap.fixture.ts"
import { running, temporaryFolder, workspaceFor } from "../../testing/hosts/Machine.ts"
import { isWritableGroup } from "../../testing/isolation/Groups.ts"

const { eventually } = SandboxHostContract

const EPERM = 1
const ENOSYS = 38
const EPROTONOSUPPORT = 93
const EAFNOSUPPORT = 97

/** Perl that forks up to 200 processes, which live for so long. `$n` is how many it got. */
const forking = (seconds: number) =>
  `$| = 1; $n = 0; for (1 .. 200) { my $p = fork; last unless defined $p; if (!$p) { sleep ${seconds}; exit } $n++ }`

type Call = readonly [what: string, x64: number, arm64: number, args: string, errno: number]

/** Perl's `syscall`: numbers for both architectures, and the error it must end with. */
const refusedCalls: ReadonlyArray<Call> = [
  ["trace a process", 101, 117, "0, 0, 0, 0", EPERM],
  ["read another process's memory", 310, 270, "1, 0, 0, 0, 0, 0", EPERM],
  ["write another process's memory", 311, 271, "1, 0, 0, 0, 0, 0", EPERM],
  ["take another process's descriptor", 438, 438, "3, 0, 0", EPERM],
  ["mount", 165, 40, "0, 0, 0, 0, 0", EPERM],
  ["unmount", 166, 39, "0, 0", EPERM],
  ["open a tree of mounts", 428, 428, "-100, 0, 1", EPERM],
  ["move a mount", 429, 429, "0, 0, 0, 0, 0", EPERM],
  ["open a file system", 430, 430, "0, 0", EPERM],
  ["change a mount", 442, 442, "0, 0, 0, 0, 0", EPERM],
  ["pivot the root", 155, 41, "0, 0", EPERM],
  ["change the root", 161, 51, "0", EPERM],
  ["make a user namespace with unshare", 272, 97, "0x10000000", EPERM],
  ["make a network namespace with unshare", 272, 97, "0x40000000", EPERM],
  ["make a user namespace with clone", 56, 220, "0x10000011, 0, 0, 0, 0", EPERM],
  ["make a namespace with clone3, whose flags no filter sees", 435, 435, "0, 0", ENOSYS],
  ["enter a namespace", 308, 268, "0, 0", EPERM],
  ["reach the session keyring", 250, 219, "0, -3, 0, 0, 0", EPERM],
  ["add a key", 248, 217, "0, 0, 0, 0, 0", EPERM],
  ["use io_uring", 425, 425, "1, 0", EPERM],
  ["load a kernel program", 321, 280, "0, 0, 0", EPERM],
  ["watch performance events", 298, 241, "0, 0, 0, 0, 0", EPERM],
  ["handle page faults", 323, 282, "0", EPERM],
  ["open a file by handle", 304, 265, "0, 0, 0", EPERM],
  ["load a kernel", 246, 104, "0, 0, 0, 0", EPERM],
  ["load a module", 175, 105, "0, 0, 0", EPERM],
  ["read the kernel's log", 103, 116, "2, 0, 0", EPERM],
  ["watch a file system with fanotify", 300, 262, "0, 0", EPERM],
  ["open a socket to the hypervisor (AF_VSOCK)", 41, 198, "40, 1, 0", EAFNOSUPPORT],
  ["open a packet socket", 41, 198, "17, 3, 0", EAFNOSUPPORT],
  ["open a socket to the kernel's cryptography (AF_ALG)", 41, 198, "38, 5, 0", EAFNOSUPPORT],
  ["open a bluetooth socket", 41, 198, "31, 3, 0", EAFNOSUPPORT],
  ["open a raw socket", 41, 198, "2, 3, 1", EPERM],
  ["open a raw IPv6 socket", 41, 198, "10, 3, 58", EPERM],
  ["open an SCTP socket", 41, 198, "2, 1, 132", EPROTONOSUPPORT],
  ["open a pair of TCP sockets", 53, 199, "2, 1, 0, 0", EAFNOSUPPORT],
  ["open a pair of sockets between kernels (AF_TIPC)", 53, 199, "30, 5, 0, 0", EAFNOSUPPORT],
  ["open a pair of sockets to the hypervisor (AF_VSOCK)", 53, 199, "40, 1, 0, 0", EAFNOSUPPORT],
  ["talk to the packet filter (NETLINK_NETFILTER)", 41, 198, "16, 3, 12", EPROTONOSUPPORT],
  ["type into a terminal (TIOCSTI)", 16, 29, "0, 0x5412, 0", EPERM],
  ["type into a terminal with bits the kernel ignores", 16, 29, "0, 0x100005412, 0", EPERM],
  ["type into a terminal (TIOCLINUX)", 16, 29, "0, 0x541c, 0", EPERM]
]

const allowedCalls: ReadonlyArray<readonly [what: string, x64: number, arm64: number, args: string]> = [
  ["open a unix socket", 41, 198, "1, 1, 0"],
  ["open a pair of unix sockets", 53, 199, "1, 1, 0, ($pair = q(12345678))"],
  ["open a TCP socket", 41, 198, "2, 0x80001, 6"],
  ["open a UDP socket", 41, 198, "10, 0x80802, 17"],
  ["ask for network addresses", 41, 198, "16, 3, 0"]
]

const isArm = process.arch === "arm64"
const perl = (x64: number, arm64: number, args: string) =>
  `perl -e '$r = syscall(${isArm ? arm64 : x64}, ${args}); print $r < 0 ? $!+0 : "done"'`

const provisioned = Effect.gen(function*() {
  const host = yield* SandboxHost
  const sandboxId = freshId()
  const workspace = yield* workspaceFor(sandboxId)
  const box = yield* Effect.acquireRelease(host.provision({ sandboxId, fence: 1 }), () => Effect.orDie(host.stop(sandboxId)))
  return { host, box, sandboxId, workspace }
})

describe("a hostile program in a box", () => {
  it.layer(layer(), { excludeTestServices: true })("of the usual kind", (it) => {
    it.effect.each(refusedCalls)("cannot %s", ([, x64, arm64, args, errno]) =>
      Effect.gen(function*() {
        const { box } = yield* provisioned
        assert.strictEqual((yield* run(box, perl(x64, arm64, args))).output, `${errno}`)
      }))

    it.effect.each(allowedCalls)("can %s, as programs must", ([, x64, arm64, args]) =>
      Effect.gen(function*() {
        const { box } = yield* provisioned
        assert.strictEqual((yield* run(box, perl(x64, arm64, args))).output, "done")
      }))

    it.effect.skipIf(isArm)("cannot make calls by their x32 numbers", () =>
      Effect.gen(function*() {
        const { box } = yield* provisioned
        assert.strictEqual((yield* run(box, perl(0x40000000 + 101, 0, "0, 0, 0, 0"))).output, `${ENOSYS}`)
      }))

    it.effect.each([
      "/etc/shadow",
      "/root",
      "/home/*/.ssh",
      "/var/lib/slipway",
      "/var/run/docker.sock",
      "/run/docker.sock",
      "/sys/kernel",
      "/dev/mem",
      "/dev/sda",
      "/dev/vda",
      "/dev/kvm",
      "/proc/1/root/etc/shadow",
      "/proc/self/root/etc/shadow",
      "/proc/1/cwd/../etc/shadow"
    ])("sees no %s", (path) =>
      Effect.gen(function*() {
        const { box } = yield* provisioned
        assert.strictEqual((yield* run(box, `ls -d ${path} 2>/dev/null`)).output, "")
      }))

    it.effect.each(["/usr/bin/x", "/etc/x", "/x", "/dev/x", "/run/x", "/lib/x", "/home/x", "/proc/sys/kernel/core_pattern",
      "/proc/sysrq-trigger", "/proc/sys/vm/drop_caches"])(
        "cannot write to %s",
        (path) =>
          Effect.gen(function*() {
            const { box } = yield* provisioned
            assert.strictEqual(
              (yield* run(box, `(echo x > ${path}) 2>/dev/null && echo written; mount -o remount,rw / 2>/dev/null && echo remounted`))
                .output,
              ""
            )
          })
      )

    it.effect("finds nothing of the service in the first process of its box but a mark", () =>
      Effect.gen(function*() {
        const { box } = yield* provisioned
        const { output } = yield* run(box, "tr '\\0' '\\n' < /proc/1/environ | cut -d= -f1 | sort | tr '\\n' ' '")
        // The last is counted by bash, which starts the box where the service has many descriptors open.
        assert.strictEqual(output.replace(" SHLVL", ""), "PATH PWD SANDBOX_MARK")
      }))

    it.effect("inherits no descriptor", () =>
      Effect.gen(function*() {
        const { box } = yield* provisioned
        assert.strictEqual((yield* run(box, "ls /proc/$$/fd; true")).output, "0\n1\n2")
      }))

    it.effect("keeps what it is given from the machine's process list", () =>
      Effect.gen(function*() {
        const { box } = yield* provisioned
        const boxed = yield* box.spawn({
          command: "sh",
          args: ["-c", "test -n \"$TOKEN\" && exec cat"],
          env: { TOKEN: "canary-token-1f6a" }
        })
        yield* boxed.write("ready\n")
        yield* Stream.runHead(boxed.stdout)
        assert.strictEqual(yield* running("canary-token-1f6a"), 0)
      }))

    it.effect("gains nothing from programs that run as root", () =>
      Effect.gen(function*() {
        const { box } = yield* provisioned
        const { output } = yield* run(
          box,
          [
            "grep -c -v nosuid /proc/self/mounts",
            "find /usr/bin -perm -4000 2>/dev/null | head -1 >/dev/null",
            "su -c id root </dev/null 2>/dev/null",
            "grep -E '^(NoNewPrivs|CapBnd)' /proc/self/status | tr -d '\\n\\t'"
          ].join("; ")
        )
        assert.strictEqual(output, "0\nCapBnd:0000000000000000NoNewPrivs:1")
      }))

    it.effect("ends only itself when it kills everything", () =>
      Effect.gen(function*() {
        const one = yield* provisioned
        const other = yield* provisioned
        const beside = yield* one.box.spawn({ command: "cat", args: [], env: {} })
        const apart = yield* other.box.spawn({ command: "cat", args: [], env: {} })
        yield* run(one.box, `kill -9 ${process.pid} 1 2>/dev/null; perl -e 'kill 9, -1'`)
        for (const boxed of [beside, apart]) {
          yield* boxed.endInput
          assert.deepStrictEqual(yield* boxed.exited, { code: 0, signal: null })
        }
      }))

    it.effect("is ended before others when memory runs out, and waits for others when processors are short", () =>
      Effect.gen(function*() {
        const { box } = yield* provisioned
        assert.strictEqual((yield* run(box, "cat /proc/self/oom_score_adj")).output, "500")
        assert.strictEqual((yield* run(box, "nice")).output.trim(), `${getPriority() + 5}`)
      }))

    it.effect("follows no link out of a tree that the host has prepared", () =>
      Effect.gen(function*() {
        const { box, workspace } = yield* provisioned
        const outside = yield* temporaryFolder
        writeFileSync(join(outside, "kept"), "kept", { mode: 0o600 })
        const before = readFileSync(join(outside, "kept"), "utf8")
        mkdirSync(join(workspace, "tree"))
        yield* run(box, `ln -s ${outside} link; ln -s ${outside}/kept tree/file; ln -s ${outside} tree/folder`)
        mkdirSync(join(workspace, "another"))
        writeFileSync(join(workspace, "another", "file"), "")
        // As a repository may have them.
        symlinkSync(join(outside, "kept"), join(workspace, "another", "file-link"))
        symlinkSync(outside, join(workspace, "another", "folder-link"))
        const { output } = yield* run(
          box,
          "cat link/kept tree/file tree/folder/kept another/folder-link/kept 2>/dev/null; echo mine > another/file && echo writable"
        )
        assert.strictEqual(output, "writable")
        assert.deepStrictEqual([statSync(outside).uid, statSync(join(outside, "kept")).uid, before], [process.getuid?.(),
          process.getuid?.(), "kept"])
      }))
  })

  const MiB = 2 ** 20
  it.layer(layer({ limits: { memoryFilesBytes: 3 * MiB, memoryBytes: 96 * MiB, processes: 40, openFiles: 64 } }), {
    excludeTestServices: true
  })(
    "that takes too much",
    (it) => {
      it.effect.each(["/tmp", "/dev/shm"])("gets no more memory as files in %s", (folder) =>
        Effect.gen(function*() {
          const { box } = yield* provisioned
          const { output } = yield* run(
            box,
            `for i in 1 2 3 4 5 6; do dd if=/dev/zero of=${folder}/file$i bs=1048576 count=1 2>/dev/null; done
            du -sx --block-size=1 ${folder} | cut -f1`
          )
          // The folder takes some as well. What is bound into it, such as our own files where they lie beneath /tmp, takes no memory.
          assert.isAtMost(Number(output), 3 * MiB + 65_536)
        }))

      it.effect("gets no more processes, while another sandbox still does", () =>
        Effect.gen(function*() {
          const one = yield* provisioned
          const other = yield* provisioned
          const bomb = yield* one.box.spawn({
            command: "perl",
            args: ["-e", `${forking(1000)} print "$n\\n"; sleep 1000`],
            env: {}
          })
          const made = Number(yield* Stream.mkString(Stream.take(Stream.decodeText(bomb.stdout), 1)))
          assert.isAbove(made, 5)
          assert.isAtMost(made, 40)
          assert.strictEqual((yield* run(other.box, "for i in 1 2 3 4 5; do sleep 0.01 & done; wait; echo fine")).output, "fine")
          yield* one.host.stop(one.sandboxId)
          yield* bomb.exited
        }))

      it.effect("gets no more descriptors", () =>
        Effect.gen(function*() {
          const { box } = yield* provisioned
          assert.strictEqual((yield* run(box, "ulimit -n; ulimit -n 65536 2>/dev/null && echo raised; ulimit -c")).output, "64\n0")
        }))

      it.effect.skipIf(!isWritableGroup)(
        "is ended when it takes too much memory (needs a writable control group)",
        () =>
          Effect.gen(function*() {
            const { box } = yield* provisioned
            const { code, output } = yield* run(box, `perl -e '$x = "a" x (512 * 1024 * 1024); print length $x'`)
            assert.deepStrictEqual([code, output], [137, ""])
            assert.strictEqual((yield* run(box, "echo still here")).output, "still here")
          })
      )
    }
  )

  it.live("gets no more processes where control groups cannot be had, either", () =>
    Effect.gen(function*() {
      const { box } = yield* provisioned
      const { output } = yield* run(
        box,
        `perl -e '${forking(5)} print $n; kill 9, -1'`
      )
      assert.isAbove(Number(output), 5)
      assert.isAtMost(Number(output), 40)
    }).pipe(Effect.scoped, Effect.provide(layer({ limits: { processes: 40 }, cgroupRoot: "/nowhere" }))))

  it.live("is gone when the sandbox is stopped, however often it becomes another process", () =>
    Effect.gen(function*() {
      const { box, host, sandboxId } = yield* provisioned
      // Twenty at a time: each lives on as its child. A bomb would take the machine where nothing limits processes.
      const runner = `
        $SIG{$_} = "IGNORE" for qw(TERM INT HUP QUIT);
        $0 = "slipway-runner-4711";
        for (1 .. 20) { last if fork }
        while (1) { my $p = fork; exit if $p; setpgrp; select undef, undef, undef, 0.002 }`
      const boxed = yield* box.spawn({ command: "sh", args: ["-c", `perl -e '${runner}'; exec sleep 1000`], env: {} })
      yield* eventually(running("slipway-runner-4711"), (count) => count > 10)
      yield* host.stop(sandboxId)
      assert.strictEqual(yield* running("slipway-runner-4711"), 0)
      yield* boxed.exited
    }).pipe(Effect.scoped, Effect.provide(layer())))
})

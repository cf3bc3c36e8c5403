/** The attempts of a hostile program. Each is real and reports whether it succeeded; none takes more than a machine can spare. */
import * as SandboxHostContract from "@slipway/testing/contracts/sandbox/SandboxHostContract"
import { Effect } from "effect"
import { spawnSync } from "node:child_process"
import { existsSync, readFileSync, writeFileSync } from "node:fs"
import { hostname, networkInterfaces } from "node:os"
import { join } from "node:path"
import { kill } from "../../src/kernel/Processes.ts"
import { freshId, isRoot, run } from "../hosts/bubblewrap.fixture.ts"
import { processes, temporaryFolder } from "../hosts/Machine.ts"
import { lacking as lackingSizes } from "../hosts/sized.fixture.ts"
import * as SpawnedProgram from "../SpawnedProgram.ts"
import { isWritableGroup } from "./Groups.ts"
import { type Attempted, CANARY, type Options, type World } from "./World.ts"

/** The parts of a machine that some layers need. */
export type Needs = "root" | "control groups" | "sized folders"

export interface Attempt<W extends World = World> extends Options {
  /** `without`: names of layers that are taken away. */
  readonly succeeds: (world: W, without: ReadonlyArray<string>) => Attempted
  /** The needs of the layer that stops it. */
  readonly needs?: Needs
  /** Whether the kernel has what is tried, so that it comes off where nothing stops it. */
  readonly isThere?: () => boolean
}

/** A shell script that comes off when it prints the canary. */
export const reads = <W extends World = World>(script: (world: W) => string) => (world: W): Attempted =>
  Effect.map(run(world.box, script(world)), ({ output }) => output.includes(CANARY))

/** A shell script that comes off when it ends well. */
export const does = <W extends World = World>(script: (world: W) => string) => (world: W): Attempted =>
  Effect.map(run(world.box, script(world)), ({ code }) => code === 0)

const worksHere = (script: string) => () => spawnSync("sh", ["-c", script]).status === 0

/** Wherever the machine's root may lie. */
export const contentOf = (files: ReadonlyArray<string>) =>
  files.map((file) => `cat ${file} /*${file} /proc/[0-9]*/root${file} 2>/dev/null`).join("; ")

const isArm = process.arch === "arm64"
export const syscall = (x64: number, arm64: number, args: string) => `syscall(${isArm ? arm64 : x64}, ${args})`
export const perl = (program: string) => `perl -e '${program}'`
const calls = (x64: number, arm64: number, args: string) => perl(`exit(${syscall(x64, arm64, args)} < 0)`)

const connects = (host: string, port: number) =>
  `perl -MIO::Socket::INET -e '
    my $s = IO::Socket::INET->new(PeerAddr => "${host}", PeerPort => ${port}, Timeout => 2) or exit 1;
    print $s->getline'`

export const ownAddress = Object.values(networkInterfaces()).flat().find((address) =>
  address?.internal === false && address.family === "IPv4"
)
  ?.address

/** Asks the way out for a connection, and prints what it says first. */
const asks = (target: string) =>
  `node -e '
    const request = require("http").request({ host: "127.0.0.1", port: 3128, method: "CONNECT", path: "${target}" })
    request.on("connect", (response, socket, head) => {
      if (response.statusCode !== 200) process.exit()
      process.stdout.write(head)
      socket.pipe(process.stdout)
    }).end()'`

// add_key, then KEYCTL_READ, in the keyring of the process.
const KEY = perl(`
  my @key = ("user", "slipway", "kept");
  my $id = ${syscall(248, 217, "$key[0], $key[1], $key[2], 4, -2")};
  exit 1 if $id < 0;
  my $read = "\\0" x 4;
  ${syscall(250, 219, "11, $id, $read, 4")};
  exit($read ne "kept")`)
const VSOCK = calls(41, 198, "40, 1, 0")
// PTRACE_ATTACH
const TRACE = perl(`
  my $child = fork;
  sleep 60 if !$child;
  my $traced = ${syscall(101, 117, "16, $child, 0, 0")};
  kill 9, $child;
  exit($traced < 0)`)
const READ_MEMORY = perl(`
  my ($from, $to) = ("memory", "\\0" x 6);
  my ($remote, $local) = map { pack "PJ", $_, 6 } $from, $to;
  my $read = ${syscall(310, 270, "$$ + 0, $local, 1, $remote, 1, 0")};
  exit($read != 6 || $to ne "memory")`)

const MiB = 2 ** 20

/** Longer than a disk is left unlooked at, even where a look takes its time. */
const LIVE_ON = "sleep 10"

/** Leaves its session and its parent, sees to it that nothing is heard of it, and goes on when its worker is dead. */
const outlives = (world: World, without: ReadonlyArray<string>): Attempted =>
  Effect.gen(function*() {
    const workspace = yield* temporaryFolder
    const [sandboxId, mark] = [freshId(), `mark-${freshId()}`]
    const [ready, asked, answers] = [join(workspace, "ready"), join(workspace, "asked"), join(workspace, "answers")]
    const survivor =
      "trap \"\" TERM INT HUP; until test -e asked; do sleep 0.05; done; for i in $(seq 20); do echo alive >> answers; sleep 0.05; done"
    const script = `(setsid sh -c '${survivor}' ${mark} >/dev/null 2>&1 </dev/null &); touch ready; cat; exec sleep 1000`
    const worker = SpawnedProgram.start(
      process.execPath,
      [world.kind.worker, world.folder, workspace, sandboxId, without.join(), script]
    )
    yield* Effect.addFinalizer(() =>
      Effect.gen(function*() {
        yield* Effect.promise(worker.kill)
        yield* Effect.orDie(world.host.stop(sandboxId))
        for (const pid of yield* processes(mark)) kill(pid)
      })
    )
    yield* SandboxHostContract.eventually(Effect.sync(() => existsSync(ready)), (made) => made, "60 seconds")
    yield* Effect.promise(() => worker.stop("SIGKILL"))
    writeFileSync(asked, "")
    const look = Effect.gen(function*() {
      // Read before its answer: a process that is gone has written everything by then.
      const isRunning = (yield* world.kind.running(mark)) > 0
      const answered = existsSync(answers) ? readFileSync(answers, "utf8").split("\n").length - 1 : 0
      return answered === 20 ? "lives" : isRunning ? "neither" : "dead"
    })
    return (yield* SandboxHostContract.eventually(look, (seen) => seen !== "neither", "30 seconds")) === "lives"
  })

const all = {
  // files
  "read a file of the machine": { succeeds: reads(({ outside }) => contentOf([join(outside, "canary")])) },
  "read what is the service's alone, in a folder that boxes see": {
    needs: "root",
    succeeds: reads(({ programs }) => `cat ${programs}/private`)
  },
  "read another sandbox's tree, home and scratch folder": { succeeds: reads(({ other }) => contentOf(other.secrets)) },
  "change a program that other sandboxes run": {
    succeeds: (world) =>
      Effect.map(
        run(world.box, `echo changed > ${world.programs}/program`),
        () => readFileSync(join(world.programs, "program"), "utf8") === "changed\n"
      )
  },
  "put a file beside the system's": { succeeds: does(() => "touch /file") },
  "have the host write its home files elsewhere, through a link": {
    succeeds: ({ box, outside }) =>
      Effect.gen(function*() {
        yield* run(box, `ln -s ${outside} "$HOME/link"`)
        yield* Effect.exit(Effect.scoped(box.spawn({ command: "true", args: [], env: {}, homeFiles: { "link/written": "" } })))
        return existsSync(join(outside, "written"))
      })
  },

  // processes
  "read command lines of others": { succeeds: reads(() => "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n'") },
  "read the environment of another sandbox's process": { succeeds: reads(() => "cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n'") },
  "find the service's environment in its own": { succeeds: reads(() => "env; cat /proc/1/environ /proc/self/environ | tr '\\0' '\\n'") },
  "end another sandbox's process": {
    // By its last argument: never more than that.
    succeeds: does(({ other }) =>
      perl(`
      my $ended = 0;
      for (glob "/proc/[0-9]*/cmdline") {
        my ($pid) = /(\\d+)/;
        open my $file, "<", $_ or next;
        local $/;
        $ended += kill 9, $pid if (<$file> // "") =~ /\\0${other.mark}\\0$/;
      }
      exit($ended == 0)`)
    )
  },
  "trace a process": { succeeds: does(() => TRACE) },
  "read a process's memory past the kernel's files": { succeeds: does(() => READ_MEMORY) },
  "outlive its worker": { succeeds: outlives },

  // the kernel
  "keep something in the kernel's keyrings": { succeeds: does(() => KEY), isThere: worksHere(KEY) },
  "become root in a user namespace of its own": { succeeds: does(() => "unshare --user --map-root-user true") },
  "mount": { succeeds: does(() => "unshare --user --map-root-user --mount mount -t tmpfs none /tmp || mount -t tmpfs none /tmp") },
  "use a capability, to rename its machine": {
    succeeds: does(() => perl(`my $name = "taken"; exit(${syscall(170, 161, "$name, 5")} < 0)`))
  },
  "become root by a program of root's that says so (setuid)": {
    needs: "root",
    succeeds: ({ box, programs }) => Effect.map(run(box, `${programs}/id -u`), ({ output }) => output === "0")
  },
  "learn the machine's name": { succeeds: ({ box }) => Effect.map(run(box, "uname -n"), ({ output }) => output === hostname()) },
  "read shared memory of the machine": {
    succeeds: reads(({ sharedMemory }) =>
      perl(`my $id = shmget(${sharedMemory}, 0, 0); my $text = ""; defined $id and shmread($id, $text, 0, 64) and print $text`)
    )
  },

  // the network
  "reach a port of the machine's loopback interface": { succeeds: reads(({ port }) => connects("127.0.0.1", port)) },
  "reach a port of the machine at its own address": {
    succeeds: reads(({ port }) => connects(ownAddress ?? "127.0.0.1", port))
  },
  "reach an abstract unix socket of the machine": {
    succeeds: reads(({ abstractSocket }) =>
      `perl -MSocket -e '
        socket(my $s, AF_UNIX, SOCK_STREAM, 0);
        connect($s, pack("Sa*", AF_UNIX, "\\0${abstractSocket}")) or exit 1;
        print readline $s'`
    )
  },
  "reach a metadata service": { succeeds: does(() => connects("169.254.169.254", 80)) },
  "reach a private address": {
    succeeds: does(() => ["10.0.0.1", "172.16.0.1", "192.168.0.1", "192.168.1.1"].map((host) => connects(host, 80)).join(" || "))
  },
  "reach a public address": { succeeds: does(() => ["1.1.1.1", "8.8.8.8"].map((host) => connects(host, 53)).join(" || ")) },
  "resolve a name": { succeeds: does(() => "getent hosts example.com") },
  "open a raw socket": { succeeds: does(() => calls(41, 198, "2, 3, 1")) },
  "open a packet socket": { succeeds: does(() => calls(41, 198, "17, 3, 0")), isThere: () => existsSync("/proc/net/packet") },
  "open a socket to the hypervisor (AF_VSOCK)": { succeeds: does(() => VSOCK), isThere: worksHere(VSOCK) },

  // the way out
  "reach a name that is not listed": { isOpen: true, succeeds: reads(({ port }) => asks(`unlisted.test:${port}`)) },
  "reach a listed name that leads to a private address": { isOpen: true, succeeds: reads(({ port }) => asks(`inner.test:${port}`)) },
  "reach a listed name that leads to a metadata service": { isOpen: true, succeeds: reads(() => asks("metadata.test:80")) },
  "reach an address by the way out": {
    isOpen: true,
    succeeds: reads(({ port }) => ["127.0.0.1", "127.1", "0x7f000001", "localhost"].map((host) => asks(`${host}:${port}`)).join("; "))
  },

  // the machine's capacity
  "start 200 processes": {
    limits: { processes: 64 },
    succeeds: does(() =>
      perl(`
      my @children;
      for (1 .. 200) {
        my $child = fork;
        last unless defined $child;
        if (!$child) { sleep 30; exit }
        push @children, $child;
      }
      kill 9, @children;
      exit(@children < 200)`)
    )
  },
  "take 400 MiB of memory": {
    needs: "control groups",
    limits: { memoryBytes: 96 * MiB },
    succeeds: does(() => perl("my @taken; push @taken, \"a\" x (1048576 + $_) for 1 .. 400; exit 0"))
  },
  "take a processor": {
    needs: "control groups",
    limits: { cpus: 0.05 },
    // 0.4 seconds of it in less than four, by as many as get their share of a busy machine.
    succeeds: does(() =>
      perl(`
      my $end = time + 4;
      for (1 .. 8) {
        next if fork;
        while (time < $end) { my ($user, $system) = times; last if $user + $system > 0.1 }
        exit;
      }
      1 while wait > 0;
      my (undef, undef, $user, $system) = times;
      exit($user + $system < 0.4)`)
    )
  },
  "fill memory with files": {
    limits: { memoryFilesBytes: 3 * MiB },
    succeeds: does(() => "dd if=/dev/zero of=/tmp/file bs=1048576 count=8 2>/dev/null")
  },
  "fill the disk and live on": {
    limits: { diskBytes: 12 * MiB },
    succeeds: does(() => `for i in 1 2 3 4 5 6; do dd if=/dev/zero of=$i bs=1048576 count=4 2>/dev/null || exit 1; done; ${LIVE_ON}`)
  },
  "fill the disk with a file that it has deleted, and live on": {
    needs: "root",
    limits: { diskBytes: 12 * MiB },
    succeeds: does(() => `exec 3>file; rm file; dd if=/dev/zero bs=1048576 count=24 >&3 2>/dev/null || exit 1; ${LIVE_ON}`)
  },
  "fill the disk with a program that it has deleted and runs, and live on": {
    needs: "root",
    limits: { diskBytes: 12 * MiB },
    succeeds: does(() =>
      `cp /bin/sleep file; dd if=/dev/zero bs=1048576 count=24 >>file 2>/dev/null || exit 1; ./file 10 & sleep 0.05; rm file; wait`
    )
  },
  "fill the disk in a folder without permissions, and live on": {
    limits: { diskBytes: 12 * MiB },
    succeeds: does(() =>
      `mkdir hidden; dd if=/dev/zero of=hidden/file bs=1048576 count=24 2>/dev/null || exit 1; chmod 000 hidden; ${LIVE_ON}`
    )
  },
  "make files without number and live on": {
    limits: { diskBytes: 12 * MiB, diskFiles: 200 },
    succeeds: does(() => `for i in $(seq 300); do : > $i || exit 1; done; ${LIVE_ON}`)
  },
  "write a file beyond its limit": {
    limits: { fileBytes: 2 * MiB },
    succeeds: does(() => "dd if=/dev/zero of=file bs=1048576 count=4 2>/dev/null")
  }
} satisfies Readonly<Record<string, Attempt>>

export type Name = keyof typeof all

export const attempts: Readonly<Record<Name, Attempt>> = all

/** The missing part of this machine, in words; `undefined`: none. */
export const lacks = (needs: Needs | undefined): string | undefined =>
  (needs === "root" && !isRoot) || (needs === "control groups" && !isWritableGroup) ||
    (needs === "sized folders" && lackingSizes !== undefined)
    ? `needs ${needs}`
    : undefined

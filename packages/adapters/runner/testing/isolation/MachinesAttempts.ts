/** The attempts of a hostile program in a machine with a runner: those in a box, and those against the runner beside it. */
import { kill } from "@slipway/machine/kernel/Processes"
import { freshId, run } from "@slipway/machine/testing/hosts/bubblewrap.fixture"
import { processes } from "@slipway/machine/testing/hosts/Machine"
import { type Attempt, attempts as shared, contentOf, does, perl, reads, syscall } from "@slipway/machine/testing/isolation/EscapeAttempts"
import { attempts as ofGvisor, counts } from "@slipway/machine/testing/isolation/GvisorLayers"
import type { Attempted } from "@slipway/machine/testing/isolation/World"
import * as SpawnedProgram from "@slipway/machine/testing/SpawnedProgram"
import * as SandboxHostContract from "@slipway/testing/contracts/sandbox/SandboxHostContract"
import { Effect } from "effect"
import { execFileSync } from "node:child_process"
import { existsSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { PLACES } from "../../src/machines/Machines.ts"
import * as Identity from "../../src/wire/Identity.ts"
import { type Kind, runner } from "../Machines.fixture.ts"
import type { MachinesWorld } from "./MachinesWorld.ts"

type MachineAttempt = Attempt<MachinesWorld>

const MiB = 2 ** 20

/** Where the example has the runner's settings and its socket. */
const RUN = "/run/slipway-runner"
export const SOCKET = `${RUN}/socket`

/** Perl that knows the processes of its runner, whose last argument is where it was told of its key. */
const atRunner = (program: string) => (world: MachinesWorld): Attempted =>
  Effect.flatMap(
    run(
      world.box,
      perl(`
      my @runner;
      for (glob "/proc/[0-9]*/cmdline") {
        my ($pid) = /(\\d+)/;
        open my $file, "<", $_ or next;
        local $/;
        push @runner, $pid if (<$file> // "") =~ /\\0\\/run\\/slipway-runner\\/settings\\.json\\0$/;
      }
      print "unseen" and exit 1 unless @runner;
      ${program}`)
    ),
    // Or it tried nothing.
    ({ code, output }) => output === "unseen" ? Effect.die("it does not see its runner") : Effect.succeed(code === 0)
  )

const PTRACE = (request: number, pid: string) => syscall(101, 117, `${request}, ${pid} + 0, 0, 0`)

/** All that it can write to of the memory, looked through for what stands before the key. */
const MEMORY = `
  for my $pid (@runner) {
    open my $maps, "<", "/proc/$pid/maps" or next;
    open my $memory, "<:raw", "/proc/$pid/mem" or next;
    while (my $line = <$maps>) {
      my ($from, $to) = map { hex } $line =~ /^([0-9a-f]+)-([0-9a-f]+) rw/ or next;
      sysseek $memory, $from, 0;
      my $before = "";
      while ($from < $to) {
        my $taken = sysread $memory, my $bytes, $to - $from < 1048576 ? $to - $from : 1048576 or last;
        $from += $taken;
        $bytes = $before . $bytes;
        print "$1\\n" while $bytes =~ /BEGIN PRIVATE KEY-----(?:\\n|\\\\n)([A-Za-z0-9+\\/=]{64})/g;
        $before = substr $bytes, -200;
      }
    }
  }`

/** Speaks to a runner as its worker does, and prints what it is told. */
const SPEAKS = `
const { address, certificate, privateKey } = JSON.parse(process.env.ASKED)
const socket = require("tls").connect({ ...address, cert: certificate, key: privateKey, rejectUnauthorized: false })
socket.on("connect", () => console.log("connected")).on("error", ({ code }) => console.log(code)).on("close", () => process.exit())
socket.on("data", (bytes) => { console.log(String(bytes)); process.exit() })
socket.write(["GET / HTTP/1.1", "Host: runner", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
  "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==", "", ""].join("\\r\\n"))
setTimeout(() => process.exit(), 10000)`

/** The answer of the runner that listens there to a program in the box with this key. */
export const speaks = (world: MachinesWorld, address: object, identity: Pick<Identity.Identity, "certificate" | "privateKey">) =>
  Effect.map(
    run(world.box, `exec node -e "$PROGRAM"`, { PROGRAM: SPEAKS, ASKED: JSON.stringify({ address, ...identity }) }),
    ({ output }) => output
  )

export const isWelcome = (said: string) => said.includes("101 Switching Protocols")

/** An unowned key. */
export const stranger = () => Identity.mint().worker

/** Leaves its session and its parent, sees to it that nothing is heard of it, and goes on when there is another worker. */
const outlives = (kind: Kind) => (world: MachinesWorld, without: ReadonlyArray<string>): Attempted =>
  Effect.gen(function*() {
    const { kind: { worker: program }, service } = world
    const [sandboxId, mark] = [freshId(), `mark-${freshId()}`]
    const workspace = join(service.machineOf(sandboxId), "workspace")
    const [ready, asked, answers] = [join(workspace, "ready"), join(workspace, "asked"), join(workspace, "answers")]
    const survivor =
      "trap \"\" TERM INT HUP; until test -e asked; do sleep 0.05; done; for i in $(seq 20); do echo alive >> answers; sleep 0.05; done"
    const script = `(setsid sh -c '${survivor}' ${mark} >/dev/null 2>&1 </dev/null &); touch ready; cat; exec sleep 1000`
    const worker = SpawnedProgram.start(
      process.execPath,
      [program, kind, world.folder, sandboxId, without.join(), script]
    )
    yield* Effect.addFinalizer(() =>
      Effect.gen(function*() {
        yield* Effect.promise(worker.kill)
        yield* Effect.orDie(service.host.stop(sandboxId))
        for (const pid of yield* processes(mark)) kill(pid)
      })
    )
    yield* SandboxHostContract.eventually(Effect.sync(() => existsSync(ready)), (made) => made, "60 seconds")
    yield* Effect.promise(() => worker.stop("SIGKILL"))
    // Whose runner ends all that there is before it answers.
    const box = yield* service.host.provision({ sandboxId, fence: 2 })
    writeFileSync(asked, "")
    const look = Effect.gen(function*() {
      const { code, output } = yield* run(box, "cat /proc/[0-9]*/cmdline | tr '\\0' '\\n'")
      // In this order: it ends when it has answered.
      const answered = existsSync(answers) ? readFileSync(answers, "utf8").split("\n").length - 1 : 0
      return answered === 20 ? "lives" : code === 0 && !output.includes(mark) ? "dead" : "neither"
    })
    return (yield* SandboxHostContract.eventually(look, (seen) => seen !== "neither", "30 seconds")) === "lives"
  })

/** With the runner in it, a machine takes more than a box, and starts slowly with little of a processor. */
const CPUS = 0.1
const SECONDS = 4 * CPUS * 1.25

const processor: MachineAttempt = {
  needs: "control groups",
  limits: { cpus: CPUS },
  succeeds: does(() =>
    perl(`
    my $end = time + 4;
    for (1 .. 8) {
      next if fork;
      while (time < $end) { my ($user, $system) = times; last if $user + $system > ${SECONDS / 4} }
      exit;
    }
    1 while wait > 0;
    my (undef, undef, $user, $system) = times;
    exit($user + $system < ${SECONDS})`)
  )
}

/** By what got done, as in boxes of gVisor. */
const processorOfGvisor: MachineAttempt = {
  ...processor,
  succeeds: ({ box }) =>
    Effect.gen(function*() {
      const [program, ...args] = counts(`${SECONDS}`, "measure")
      const inSomeTime = Number(execFileSync(program, args, { encoding: "utf8" }))
      const { output } = yield* run(box, counts("4").map((arg) => `'${arg}'`).join(" "))
      return Number(output) >= inSomeTime
    })
}

/** Those that mean something in a machine: the example bounds the disk, and no single file. */
const { "write a file beyond its limit": _, ...inMachines } = shared

const all = (kind: Kind) => ({
  ...inMachines,
  "outlive its worker": { succeeds: outlives(kind) },
  "take a processor": kind === "gvisor" ? processorOfGvisor : processor,
  ...kind === "gvisor"
    ? {
      "reach a port of the machine's loopback interface": ofGvisor["reach a port of the machine's loopback interface"],
      "reach a port of the machine at its own address": ofGvisor["reach a port of the machine at its own address"]
    }
    : {},
  "take 400 MiB of memory": { ...shared["take 400 MiB of memory"], limits: { memoryBytes: 256 * MiB } },
  "make files without number and live on": {
    ...shared["make files without number and live on"],
    needs: "sized folders",
    succeeds: does(() => "perl -e 'for (1 .. 20000) { open my $file, \">\", $_ or exit 1 }' && sleep 10")
  },

  "read what its runner keeps": { succeeds: reads(() => contentOf([`${RUN}/*`, `${PLACES.state}/*`, `${PLACES.state}/*/*`])) },
  "read the key of its runner where it was told it": {
    succeeds: ({ box, service }: MachinesWorld) =>
      Effect.map(run(box, contentOf([`${RUN}/settings.json`])), ({ output }) => output.includes(service.keyOf(box.sandboxId)))
  },
  "read its runner's memory": {
    succeeds: (world: MachinesWorld) =>
      Effect.gen(function*() {
        // Also says that there is a runner to see.
        if (!(yield* atRunner("")(world))) return false
        const { output } = yield* run(world.box, perl(`my @runner = map { /(\\d+)/ } glob "/proc/[0-9]*/mem"; ${MEMORY}`))
        return output.includes(world.service.keyOf(world.box.sandboxId))
      })
  },
  "read its runner's environment": {
    succeeds: atRunner(`exit(0 == grep { open my $file, "<", "/proc/$_/environ" } @runner)`)
  },
  "open what its runner has open": {
    // All but what is everybody's, as /dev/null, or its own, as a folder of its home that the runner writes to at the moment.
    succeeds: atRunner(`
      use Fcntl;
      my $opened = 0;
      for my $path (map { glob "/proc/$_/root/ /proc/$_/cwd/ /proc/$_/fd/*" } @runner) {
        for my $mode (O_RDONLY, O_WRONLY) {
          sysopen my $file, $path, $mode | O_NONBLOCK or next;
          $opened++ unless -c $file or $< && -O $file;
        }
      }
      exit($opened == 0)`)
  },
  "signal its runner": { succeeds: atRunner("exit(0 == kill WINCH => @runner)") },
  "trace its runner": {
    succeeds: atRunner(`
      my $traced = 0;
      for my $pid (@runner) {
        next if ${PTRACE(16, "$pid")} < 0;
        $traced++;
        waitpid $pid, 0x40000000;
        ${PTRACE(17, "$pid")};
      }
      exit($traced == 0)`)
  },
  // Opens it, and writes nothing: all machines of this test run this program.
  "write to its runner's program": { succeeds: does(() => `perl -e 'open my $file, ">>", "${runner}" or exit 1'`) },
  "have its runner write home files elsewhere, through a link": {
    succeeds: ({ box, service }: MachinesWorld) =>
      Effect.gen(function*() {
        yield* run(box, `ln -sfn ${PLACES.state} "$HOME/link"`)
        yield* Effect.exit(Effect.scoped(box.spawn({ command: "true", args: [], env: {}, homeFiles: { "link/written": "" } })))
        return existsSync(join(service.machineOf(box.sandboxId), "state", "written"))
      })
  },
  "speak to its runner as its worker does": {
    succeeds: (world: MachinesWorld) => Effect.map(speaks(world, { path: SOCKET }, stranger()), isWelcome)
  },
  "read what is kept of another sandbox's machine": {
    succeeds: reads(({ other, service }: MachinesWorld) =>
      contentOf(["state", "run"].map((name) => join(service.machineOf(other.box.sandboxId), name, "canary")))
    )
  },
  "read the keys that make a worker of somebody": {
    succeeds: reads(({ service }: MachinesWorld) => contentOf([join(service.known, "canary")]))
  }
} satisfies Readonly<Record<string, MachineAttempt>>)

export type Name = keyof ReturnType<typeof all>

export const attemptsOf: (kind: Kind) => Readonly<Record<Name, MachineAttempt>> = all

/** The meaningless attempts in machines of a kind, and why. */
export const senseless: Readonly<Record<Kind, Readonly<Record<string, string>>>> = {
  bubblewrap: { "write a file beyond its limit": "the disk has a bound, no single file" },
  docker: { "write a file beyond its limit": "the disk has a bound, no single file" },
  gvisor: {
    "write a file beyond its limit": "the disk has a bound, no single file",
    "read its runner's environment": "gVisor of 2022-12 tells everybody's, and the example puts nothing in it"
  }
}

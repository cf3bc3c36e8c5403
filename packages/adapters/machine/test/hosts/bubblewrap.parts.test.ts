/** Parts of the host that need no box. */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { mkdirSync, readdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { filterFor } from "../../src/bubblewrap/SeccompFilter.ts"
import * as Cgroups from "../../src/kernel/Cgroups.ts"
import * as Uids from "../../src/users/Uids.ts"
import { temporaryFolder } from "../../testing/hosts/Machine.ts"

/** The kernel's interpreter of classic BPF, for the instructions that filters use. */
const judge = (
  program: Uint8Array,
  call: { readonly number: number; readonly arch: number; readonly args?: ReadonlyArray<number> }
): number => {
  const bytes = Buffer.from(program)
  const data = Buffer.alloc(64)
  data.writeUInt32LE(call.number >>> 0, 0)
  data.writeUInt32LE(call.arch >>> 0, 4)
  for (const [i, value] of (call.args ?? []).entries()) data.writeBigUInt64LE(BigInt.asUintN(64, BigInt(value)), 16 + 8 * i)
  let accumulator = 0
  for (let at = 0; at < bytes.length / 8; at++) {
    const [code, yes, no, value] = [bytes.readUInt16LE(at * 8), bytes[at * 8 + 2] ?? 0, bytes[at * 8 + 3] ?? 0,
      bytes.readUInt32LE(at * 8 + 4)]
    if (code === 0x20) accumulator = data.readUInt32LE(value)
    else if (code === 0x54) accumulator = (accumulator & value) >>> 0
    else if (code === 0x15) at += accumulator === value ? yes : no
    else if (code === 0x35) at += accumulator >= value ? yes : no
    else if (code === 0x45) at += (accumulator & value) !== 0 ? yes : no
    else if (code === 0x06) return value
    else throw new Error(`unknown instruction ${code}`)
  }
  throw new Error("the program has no end")
}

const ALLOW = 0x7fff0000
const KILL = 0x80000000
const errno = (number: number) => 0x00050000 + number

const architectures = [
  {
    name: "x64",
    audit: 0xc000003e,
    other: 0x40000003,
    read: 0,
    clone: 56,
    socket: 41,
    socketpair: 53,
    ioctl: 16,
    ptrace: 101,
    mount: 165,
    unshare: 272,
    keyctl: 250,
    bpf: 321
  },
  {
    name: "arm64",
    audit: 0xc00000b7,
    other: 0x40000028,
    read: 63,
    clone: 220,
    socket: 198,
    socketpair: 199,
    ioctl: 29,
    ptrace: 117,
    mount: 40,
    unshare: 97,
    keyctl: 219,
    bpf: 280
  }
]

describe.each(architectures)(
  "the system call filter on $name",
  ({ audit, bpf, clone, ioctl, keyctl, mount, name, other, ptrace, read, socket, socketpair, unshare }) => {
    const filter = filterFor(String(name)) ?? new Uint8Array()
    const of = (number: number, ...args: ReadonlyArray<number>) => judge(filter, { number, arch: audit, args })

    it("allows what it does not name, and ends programs of another architecture", () => {
      assert.strictEqual(of(read), ALLOW)
      assert.strictEqual(judge(filter, { number: read, arch: other }), KILL)
    })

    it("refuses what leads out of a box", () => {
      for (const number of [ptrace, mount, unshare, keyctl, bpf, 425, 428, 438]) assert.strictEqual(of(number), errno(1), `${number}`)
      assert.strictEqual(of(435), errno(38))
    })

    it("lets programs start threads and processes, but no namespaces", () => {
      assert.strictEqual(of(clone, 0x3d0f00), ALLOW)
      assert.strictEqual(of(clone, 0x01200011), ALLOW)
      for (const flag of [0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000]) {
        assert.strictEqual(
          of(clone, flag | 17),
          errno(1),
          flag.toString(16)
        )
      }
    })

    it("refuses input into terminals, and allows what terminals are for", () => {
      for (const request of [0x5412, 0x541c, 2 ** 32 + 0x5412]) assert.strictEqual(of(ioctl, 0, request), errno(1))
      assert.strictEqual(of(ioctl, 0, 0x5401), ALLOW)
    })

    it("knows which sockets are needed", () => {
      for (
        const [family, type, protocol, decision] of [
          [1, 1, 0, ALLOW],
          [1, 5, 0, ALLOW],
          [2, 1, 0, ALLOW],
          [2, 0x80801, 6, ALLOW],
          [10, 2, 17, ALLOW],
          [16, 3, 0, ALLOW],
          [16, 0x80003, 0, ALLOW],
          [2, 3, 1, errno(1)],
          [2, 0x80003, 255, errno(1)],
          [2, 10, 0, errno(1)],
          [2, 5, 132, errno(1)],
          [2, 1, 132, errno(93)],
          [2, 1, 262, errno(93)],
          [16, 3, 12, errno(93)],
          [16, 3, 6, errno(93)],
          [17, 3, 0, errno(97)],
          [38, 5, 0, errno(97)],
          [40, 1, 0, errno(97)],
          [0, 1, 0, errno(97)],
          [44, 3, 0, errno(97)]
        ] as const
      ) assert.strictEqual(of(socket, family, type, protocol), decision, `${family} ${type} ${protocol}`)
    })

    it("knows that pairs of sockets are unix ones", () => {
      for (const type of [1, 2, 5, 0x80001]) assert.strictEqual(of(socketpair, 1, type, 0), ALLOW)
      for (const family of [0, 2, 10, 16, 17, 30, 38, 40, 45]) assert.strictEqual(of(socketpair, family, 1, 0), errno(97), `${family}`)
    })
  }
)

describe("the system call filter", () => {
  it("does not exist for other processors, so nothing runs there", () => {
    for (const name of ["ia32", "arm", "riscv64", "toString"]) assert.isUndefined(filterFor(name))
  })

  it("leaves no way around by the numbers of x32", () => {
    assert.strictEqual(judge(filterFor("x64") ?? new Uint8Array(), { number: 0x40000000, arch: 0xc000003e }), errno(38))
  })
})

describe("users of sandboxes", () => {
  const range = { first: 1000, count: 3 }

  it.live("are given once, kept over restarts, and free again when given back", () =>
    Effect.gen(function*() {
      const [registry, directory] = [yield* temporaryFolder, yield* temporaryFolder]
      const uids = Uids.make({ registry, directory, range })
      const numbers = yield* Effect.promise(() => Promise.all(["a", "b", "c"].map((name) => uids.claim(name))))
      assert.deepStrictEqual([...numbers].sort(), [1000, 1001, 1002])
      const again = Uids.make({ registry, directory, range })
      assert.strictEqual(yield* Effect.promise(() => again.claim("b")), numbers[1])
      assert.match(yield* Effect.promise(() => again.claim("d").then(String, String)), /every user number is taken/u)
      yield* Effect.promise(() => again.release("b"))
      yield* Effect.promise(() => again.release("b"))
      assert.strictEqual(yield* Effect.promise(() => uids.claim("d")), numbers[1])
      assert.deepStrictEqual((yield* Effect.promise(() => uids.list())).map(({ name }) => name).sort(), ["a", "c", "d"])
      assert.strictEqual(readdirSync(registry).length, 3)
    }).pipe(Effect.scoped))

  it.live("are never shared with another service of the machine, whatever its sandboxes are called", () =>
    Effect.gen(function*() {
      const registry = yield* temporaryFolder
      const [one, other] = [yield* temporaryFolder, yield* temporaryFolder]
      const ours = Uids.make({ registry, directory: one, range })
      const theirs = Uids.make({ registry, directory: other, range })
      const numbers = yield* Effect.promise(() => Promise.all([ours.claim("a"), theirs.claim("a"), ours.claim("b")]))
      assert.strictEqual(new Set(numbers).size, 3)
      yield* Effect.promise(() => theirs.release("b"))
      assert.deepStrictEqual((yield* Effect.promise(() => ours.list())).map(({ name }) => name).sort(), ["a", "b"])
      // A service whose folder was deleted can claim nothing any more.
      rmSync(other, { recursive: true })
      yield* Effect.promise(() => ours.prune())
      assert.strictEqual(readdirSync(registry).length, 2)
    }).pipe(Effect.scoped))

  it.live("of sandboxes at rest are read once, not whenever one is asked for", () =>
    Effect.gen(function*() {
      const [registry, directory] = [yield* temporaryFolder, yield* temporaryFolder]
      const many = { first: 1000, count: 10_000 }
      const names = Array.from({ length: 2_000 }, (_, i) => `${i}`)
      for (const [i, name] of names.entries()) writeFileSync(join(registry, `${1000 + i}`), `${directory}\n${name}\n`)
      const uids = Uids.make({ registry, directory, range: many })
      assert.lengthOf(yield* Effect.promise(() => uids.list()), 2_000)
      // A second read would have no claimant.
      for (const i of names.keys()) if (i !== 7) writeFileSync(join(registry, `${1000 + i}`), "")
      assert.deepStrictEqual((yield* Effect.promise(() => uids.list())).map(({ name }) => name).sort(), names.sort())
      assert.strictEqual(yield* Effect.promise(() => uids.claim("7")), 1007)
    }).pipe(Effect.scoped))

  it("are taken from numbers that this process can become", () => {
    assert.deepStrictEqual(Uids.range("         0          0 4294967295\n"), { first: 1_900_000_000, count: 100_000 })
    assert.deepStrictEqual(Uids.range("0 100000 65536\n"), { first: 20_000, count: 40_000 })
    assert.isNull(Uids.range("0 1000 1\n"))
  })
})

describe("control groups", () => {
  const limits = { memoryBytes: 2 ** 30, processes: 100, cpus: 1.5 }

  /** A folder as the kernel shows it, without what the kernel does with it. */
  const hierarchy = (files: Readonly<Record<string, string>>) =>
    Effect.map(temporaryFolder, (root) => {
      for (const [path, content] of Object.entries(files)) {
        mkdirSync(join(root, path, ".."), { recursive: true })
        writeFileSync(join(root, path), content)
      }
      return root
    })

  it.live("of version 2 get limits of memory, swap, processes and processors, and end as one", () =>
    Effect.gen(function*() {
      const root = yield* hierarchy({
        "cgroup.controllers": "cpu memory pids",
        "cgroup.subtree_control": "cpu memory pids",
        "slipway-x/cgroup.subtree_control": "cpu memory pids"
      })
      const groups = yield* Effect.promise(() => Cgroups.open("slipway-x", root))
      if ("reason" in groups) return assert.fail(groups.reason)
      assert.deepStrictEqual([groups.version, [...groups.limits].sort()], [2, ["cpu", "memory", "processes"]])
      const procs = yield* Effect.promise(() => groups.create("c_1", limits))
      const group = join(root, "slipway-x", "c_1")
      assert.deepStrictEqual(procs, [join(group, "cgroup.procs")])
      const settings = ["memory.max", "memory.swap.max", "memory.oom.group", "pids.max", "cpu.max"].map((file) =>
        readFileSync(join(group, file), "utf8")
      )
      assert.deepStrictEqual(settings, [`${2 ** 30}`, "0", "1", "100", "150000 100000"])
      assert.strictEqual(readFileSync(join(root, "slipway-x/cpu.weight"), "utf8"), "25")
      assert.deepStrictEqual(yield* Effect.promise(groups.list), ["c_1"])
      assert.deepStrictEqual(yield* Effect.promise(() => groups.met("c_1")), { outOfMemory: 0, tooManyProcesses: 0 })
      writeFileSync(join(group, "memory.events"), "low 0\nhigh 0\nmax 9\noom 3\noom_kill 2\noom_group_kill 1\n")
      writeFileSync(join(group, "pids.events"), "max 4\n")
      assert.deepStrictEqual(yield* Effect.promise(() => groups.met("c_1")), { outOfMemory: 2, tooManyProcesses: 4 })
      yield* Effect.promise(() => groups.kill("c_1"))
      assert.strictEqual(readFileSync(join(group, "cgroup.kill"), "utf8"), "1")
    }).pipe(Effect.scoped))

  it.live("of version 1 get them in each hierarchy there is", () =>
    Effect.gen(function*() {
      const root = yield* hierarchy({ "memory/cgroup.procs": "", "pids/cgroup.procs": "", "cpu/cgroup.procs": "" })
      const groups = yield* Effect.promise(() => Cgroups.open("slipway-x", root))
      if ("reason" in groups) return assert.fail(groups.reason)
      assert.deepStrictEqual([groups.version, [...groups.limits].sort()], [1, ["cpu", "memory", "processes"]])
      const procs = yield* Effect.promise(() => groups.create("c_1", limits))
      assert.deepStrictEqual(
        procs,
        ["memory", "pids", "cpu"].map((controller) => join(root, controller, "slipway-x", "c_1", "cgroup.procs"))
      )
      assert.strictEqual(readFileSync(join(root, "memory/slipway-x/c_1/memory.limit_in_bytes"), "utf8"), `${2 ** 30}`)
      assert.strictEqual(readFileSync(join(root, "pids/slipway-x/c_1/pids.max"), "utf8"), "100")
      assert.strictEqual(readFileSync(join(root, "cpu/slipway-x/c_1/cpu.cfs_quota_us"), "utf8"), "150000")
      assert.strictEqual(readFileSync(join(root, "cpu/slipway-x/cpu.shares"), "utf8"), "256")
      writeFileSync(join(root, "memory/slipway-x/c_1/memory.oom_control"), "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n")
      writeFileSync(join(root, "pids/slipway-x/c_1/pids.events"), "max 4\n")
      assert.deepStrictEqual(yield* Effect.promise(() => groups.met("c_1")), { outOfMemory: 2, tooManyProcesses: 4 })
      assert.deepStrictEqual(yield* Effect.promise(groups.list), ["c_1"])
    }).pipe(Effect.scoped))

  it.each([
    ["1", { "pids/cgroup.procs": "" }, "pids"],
    ["2", {
      "cgroup.controllers": "cpu memory pids",
      "cgroup.subtree_control": "cpu memory pids",
      "slipway-x/cgroup.subtree_control": "cpu memory pids"
    }, ""]
  ])(
    "of version %s that other services left are removed: those that are old and have no process",
    (_, files, controller) =>
      Effect.runPromise(
        Effect.gen(function*() {
          const root = yield* hierarchy(files)
          const parent = join(root, controller)
          const [lost, busy, young] = ["slipway-0123456789ab", "slipway-ba9876543210", "slipway-aaaaaaaaaaaa"]
          for (const name of [`${lost}/c_1`, `${lost}/c_2`, `${busy}/c_1`, `${busy}/c_2`, `${young}/c_1`, "slipway-service", "other/c_1"]) {
            mkdirSync(join(parent, name), { recursive: true })
          }
          // As the kernel does, the file system keeps a folder that has something in it.
          writeFileSync(join(parent, busy, "c_1/process"), "")
          const longAgo = new Date(Date.now() - 2 * 3_600_000)
          for (
            const name of [`${lost}/c_1`, `${lost}/c_2`, lost, `${busy}/c_1`, `${busy}/c_2`, busy, "slipway-service", "other/c_1", "other"]
          ) {
            utimesSync(join(parent, name), longAgo, longAgo)
          }
          const groups = yield* Effect.promise(() => Cgroups.open("slipway-x", root))
          if ("reason" in groups) return assert.fail(groups.reason)
          const left = readdirSync(parent, { withFileTypes: true }).filter((entry) => entry.isDirectory()).map(({ name }) => name)
          assert.sameMembers(left, [busy, young, "slipway-service", "slipway-x", "other"])
          assert.deepStrictEqual(readdirSync(join(parent, busy)), ["c_1"])
          assert.deepStrictEqual(readdirSync(join(parent, "other")), ["c_1"])
        }).pipe(Effect.scoped)
      )
  )

  it.live("that cannot be had are a sentence that says what helps", () =>
    Effect.gen(function*() {
      const root = yield* hierarchy({ "cgroup.controllers": "cpu", "cgroup.subtree_control": "" })
      const groups = yield* Effect.promise(() => Cgroups.open("slipway-x", root))
      assert.match("reason" in groups ? groups.reason : "", /Delegate=yes/u)
      const nothing = yield* Effect.promise(() => Cgroups.open("slipway-x", join(root, "nothing")))
      assert.match("reason" in nothing ? nothing.reason : "", /No control group/u)
    }).pipe(Effect.scoped))
})

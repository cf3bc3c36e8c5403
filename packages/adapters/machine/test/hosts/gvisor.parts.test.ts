/** The settings of a container of gVisor; these tests need no container. */
import { assert, describe, it } from "@effect/vitest"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { Effect, Schema } from "effect"
import { mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as SandboxFolder from "../../src/files/SandboxFolder.ts"
import * as Bundle from "../../src/gvisor/Bundle.ts"
import { filterFor } from "../../src/gvisor/SystemCallFilter.ts"
import { defaults } from "../../src/host/Limits.ts"
import { tables } from "../../src/kernel/SystemCalls.ts"
import { temporaryFolder } from "../../testing/hosts/Machine.ts"

const Configuration = Schema.fromJsonString(Schema.Struct({
  mounts: Schema.Array(Schema.Struct({
    destination: Schema.String,
    source: Schema.String,
    options: Schema.optionalKey(Schema.Array(Schema.String))
  })),
  process: Schema.Struct({ args: Schema.Array(Schema.String), env: Schema.Array(Schema.String) }),
  linux: Schema.Struct({ uidMappings: Schema.Array(Schema.Struct({ containerID: Schema.Int, hostID: Schema.Int, size: Schema.Int })) })
}))

const filter = filterFor("x64")

/** The configuration of a box, with what it is made in. */
const written = (changes: Partial<Parameters<typeof Bundle.write>[1]> = {}) =>
  Effect.gen(function*() {
    if (filter === undefined) return yield* Effect.die("there is no filter")
    const place = yield* temporaryFolder
    const folder = SandboxFolder.of(join(place, "boxes"), SandboxId.make("c_aaaaaaaaaaaa"), null)
    const [workspace, bundle, shown] = [join(place, "workspace"), join(place, "bundle"), join(place, "shown")]
    for (const path of [workspace, bundle, folder.home, folder.scratch, folder.etc, join(shown, "inner")]) {
      mkdirSync(path, { recursive: true })
    }
    for (const file of [join(folder.etc, "passwd"), folder.socket, join(place, "file")]) writeFileSync(file, "")
    yield* Effect.promise(() =>
      Bundle.write(bundle, {
        command: ["sh", "-c", "true"],
        environment: { TOKEN: "t0ken" },
        etcFiles: ["passwd"],
        folder,
        hasWayOut: true,
        isReading: false,
        limits: defaults,
        readOnly: ["/usr/bin/env", join(shown, "inner"), shown, join(place, "file"), shown],
        workspace,
        user: { uid: 7, gid: 7 },
        kernelUser: { uid: 8, gid: 8 },
        filter,
        through: (path) => path,
        ...changes
      })
    )
    const file = join(bundle, "config.json")
    const configuration = yield* Schema.decodeEffect(Configuration)(readFileSync(file, "utf8"))
    const mountOn = (destination: string) => configuration.mounts.filter((mount) => mount.destination === destination)
    return { bundle, configuration, file, folder, mountOn, place, shown, workspace }
  })

describe("a container of gVisor", () => {
  it.live("is told secrets in a file that is ours alone", () =>
    Effect.gen(function*() {
      const { configuration, file } = yield* written()
      assert.deepStrictEqual(configuration.process.env, ["TOKEN=t0ken"])
      assert.strictEqual(statSync(file).mode & 0o777, 0o600)
    }).pipe(Effect.scoped))

  it.live("writes to its workspace, home and scratch folder, and to nothing else of the machine", () =>
    Effect.gen(function*() {
      const { configuration, folder } = yield* written()
      const writable = configuration.mounts.filter(({ options = [], source }) => source.startsWith("/") && !options.includes("ro"))
      assert.deepStrictEqual(writable.map(({ destination }) => destination), [folder.homeInBox, "/scratch", "/workspace"])
      const reading = yield* written({ isReading: true })
      assert.include(reading.mountOn("/workspace")[0]?.options ?? [], "ro")
    }).pipe(Effect.scoped))

  it.live("sees each folder once, and none that another one has", () =>
    Effect.gen(function*() {
      const { mountOn, place, shown } = yield* written()
      assert.lengthOf(mountOn(shown), 1)
      assert.lengthOf(mountOn(join(place, "file")), 1)
      for (const path of [join(shown, "inner"), "/usr/bin/env"]) assert.deepStrictEqual(mountOn(path), [])
    }).pipe(Effect.scoped))

  it.live("has a way out where it is to have one", () =>
    Effect.gen(function*() {
      assert.lengthOf((yield* written()).mountOn("/run/slipway/egress.sock"), 1)
      assert.deepStrictEqual((yield* written({ hasWayOut: false })).mountOn("/run/slipway/egress.sock"), [])
    }).pipe(Effect.scoped))

  it.live("is two users of the machine, neither of them root", () =>
    Effect.gen(function*() {
      const { configuration } = yield* written()
      assert.deepStrictEqual(configuration.linux.uidMappings, [
        { containerID: 0, hostID: 8, size: 1 },
        { containerID: Bundle.USER, hostID: 7, size: 1 }
      ])
    }).pipe(Effect.scoped))

  it.live("has something for each mount to lie on, a file for a file", () =>
    Effect.gen(function*() {
      const { bundle, configuration } = yield* written()
      for (const { destination, source } of configuration.mounts) {
        if (destination === "/dev/shm") continue // in gVisor's own /dev
        const target = statSync(join(bundle, "root", destination))
        assert.strictEqual(target.isDirectory(), !source.startsWith("/") || statSync(source).isDirectory(), destination)
      }
    }).pipe(Effect.scoped))

  it.live("reaches folders of the machine by the way it is told", () =>
    Effect.gen(function*() {
      const { mountOn, workspace } = yield* written({ through: (path) => `/through${path}` })
      assert.strictEqual(mountOn("/workspace")[0]?.source, `/through${workspace}`)
      assert.strictEqual(mountOn("/tmp")[0]?.source, "tmpfs")
    }).pipe(Effect.scoped))

  it("is refused all that boxes of other kinds are, and new namespaces, and told that clone3 is missing", () => {
    for (const arch of ["x64", "arm64"]) {
      const rules = filterFor(arch)?.syscalls ?? []
      assert.includeMembers(rules.filter(({ action }) => action === "SCMP_ACT_ERRNO").flatMap(({ names }) => names), [
        ...Object.keys(tables[arch]?.refused ?? {}),
        "clone"
      ])
      assert.deepStrictEqual(rules.filter(({ action }) => action === "SCMP_ACT_TRACE").map(({ names }) => names), [["clone3"]])
    }
    assert.isUndefined(filterFor("riscv64"))
    assert.isUndefined(filterFor("constructor"))
  })
})

import { assert, describe, it } from "@effect/vitest"
import { ConfigProvider, Effect } from "effect"
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { homedir, tmpdir } from "node:os"
import { join } from "node:path"
import * as Toolchains from "../../src/service/machine/Toolchains.ts"
import * as Settings from "../../src/settings/Settings.ts"

const folder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "slipway-toolchains-"))),
  (path) => Effect.sync(() => rmSync(path, { recursive: true }))
)

const load = (environment: Readonly<Record<string, string>>) =>
  Effect.provide(Settings.load, ConfigProvider.layer(ConfigProvider.fromUnknown(environment)))

describe("SLIPWAY_TOOLCHAINS", () => {
  it.effect("is folders between commas, and none when it is not set", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual((yield* load({ SLIPWAY_TOOLCHAINS: "/opt/go, /opt/node," })).toolchains, ["/opt/go", "/opt/node"])
      assert.deepStrictEqual((yield* load({})).toolchains, [])
      for (const wrong of ["tools", "~/.nvm", "/opt/a:/opt/b"]) {
        const { message } = yield* Effect.flip(load({ SLIPWAY_TOOLCHAINS: wrong }))
        assert.strictEqual(
          message,
          `SLIPWAY_TOOLCHAINS must be absolute paths of folders between commas, without colons, but it is "${wrong}".`
        )
      }
    }))

  it.effect("a missing or invalid folder, or a folder with more than programs in it, is refused by its name", () =>
    Effect.gen(function*() {
      const root = yield* folder
      const data = join(root, "data")
      for (const path of [join(data, "agents"), join(root, "go/bin"), join(root, "home/.ssh"), join(root, "cargo")]) {
        mkdirSync(path, { recursive: true })
      }
      for (const path of ["file", "cargo/credentials.toml", "keys.pem"]) writeFileSync(join(root, path), "")
      symlinkSync(data, join(root, "link"))
      symlinkSync(join(root, "go"), join(root, "current"))
      const checked = Effect.fnUntraced(function*(toolchain: string, more: Readonly<Record<string, string>> = {}) {
        return yield* Toolchains.check(
          yield* load({ SLIPWAY_DATA_DIR: data, SLIPWAY_TOOLCHAINS: `${join(root, "go")},${toolchain}`, ...more })
        )
      })
      yield* checked(join(root, "current"))
      for (
        const [toolchain, words] of [
          [join(root, "missing"), /must be existing folders/u],
          [join(root, "file"), /must be folders, but/u],
          [join(root, "home"), /without \.ssh/u],
          [join(root, "cargo"), /without credentials\.toml/u],
          [data, /outside the data folder/u],
          [join(data, "agents"), /outside the data folder/u],
          [join(root, "link"), /outside the data folder/u],
          [root, /without files of the service/u],
          ["/", /not the system's own/u],
          ["/usr/../etc/", /not the system's own/u],
          ["/proc/self", /not the system's own/u],
          [homedir(), /folders with only programs/u]
        ] as const
      ) {
        const { message } = yield* Effect.flip(checked(toolchain))
        assert.match(message, words)
        assert.isTrue(message.startsWith("SLIPWAY_TOOLCHAINS must be ") && message.endsWith(`but it is "${toolchain}".`), message)
      }
      mkdirSync(join(root, "keys"))
      writeFileSync(join(root, "keys/key"), "")
      const { message } = yield* Effect.flip(checked(join(root, "keys"), { SLIPWAY_SECRETS_KEY_FILE: join(root, "keys/key") }))
      assert.match(message, /without files of the service \(.*keys\/key\)/u)
    }).pipe(Effect.scoped))
})

import { assert, describe, it } from "@effect/vitest"
import { Redaction } from "@slipway/domain/environment/redaction/Redaction"
import { Effect } from "effect"
import { generateKeyPairSync } from "node:crypto"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import * as CommitSigning from "../../src/service/CommitSigning.ts"

const folder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(path.join(tmpdir(), "slipway-signing-"))),
  (folder) => Effect.sync(() => rmSync(folder, { recursive: true }))
)

const settingsWith = (signingKeyFile: string | null) => ({
  commit: { author: { name: "Slipway", email: "slipway@example.com" }, message: "{title}", signingKeyFile }
})

describe("the key that signs commits", () => {
  it.effect("is the one of the settings, and its text is hidden everywhere", () =>
    Effect.gen(function*() {
      assert.isNull(yield* CommitSigning.find(settingsWith(null)))
      const file = path.join(yield* folder, "key")
      const text = generateKeyPairSync("ed25519").privateKey.export({ type: "pkcs8", format: "pem" }).toString()
      writeFileSync(file, text)
      assert.match((yield* CommitSigning.find(settingsWith(file)))?.fingerprint ?? "", /^SHA256:[A-Za-z0-9+/]{43}$/u)
      assert.notInclude((yield* Redaction).redact(`before ${text} after`), text)
    }))

  it.effect("is refused in one line that names setting, file and problem", () =>
    Effect.gen(function*() {
      const there = yield* folder
      const locked = path.join(there, "locked")
      const cipher = { cipher: "aes-256-cbc", passphrase: "canary words" }
      writeFileSync(locked, generateKeyPairSync("ed25519").privateKey.export({ type: "pkcs8", format: "pem", ...cipher }))
      for (const [file, problem] of [[locked, "it has a passphrase"], [path.join(there, "none"), "the file cannot be read"]] as const) {
        const { message } = yield* Effect.flip(CommitSigning.find(settingsWith(file)))
        const said =
          `SLIPWAY_COMMIT_SIGNING_KEY_FILE must be the file of an SSH private key without a passphrase, and ${file} is not: ${problem}`
        assert.isTrue(message.startsWith(said), message)
        assert.notInclude(message, "\n")
      }
    }))
})

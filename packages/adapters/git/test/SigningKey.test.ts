import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { execFileSync, spawnSync } from "node:child_process"
import { generateKeyPairSync } from "node:crypto"
import { chmodSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as SigningKey from "../src/publish/SigningKey.ts"
import { temporaryFolder } from "../testing/Repositories.ts"

const isHere = spawnSync("ssh-keygen", ["-?"]).error === undefined

/** A new key file, as `ssh-keygen` makes it. */
const made = Effect.fnUntraced(function*(...args: ReadonlyArray<string>) {
  const file = join(yield* temporaryFolder, "key")
  execFileSync("ssh-keygen", ["-q", "-C", "someone", "-f", file, ...args])
  return file
})
const parsed = (file: string) => Effect.flatMap(SigningKey.readText(file), SigningKey.parse)
const problemOf = (file: string) => Effect.map(Effect.flip(parsed(file)), ({ problem }) => problem)

describe.skipIf(!isHere)(`keys for signing commits${isHere ? "" : " (needs ssh-keygen)"}`, () => {
  for (
    const [kind, args] of [
      ["Ed25519", ["-t", "ed25519", "-N", ""]],
      ["RSA", ["-t", "rsa", "-b", "2048", "-N", ""]],
      ["RSA as PEM", ["-t", "rsa", "-b", "3072", "-N", "", "-m", "PEM"]]
    ] as const
  ) {
    it.live(`${kind}: ssh-keygen verifies its signatures, and knows it by its fingerprint`, () =>
      Effect.gen(function*() {
        const file = yield* made(...args)
        const key = yield* parsed(file)
        assert.include(execFileSync("ssh-keygen", ["-l", "-f", file], { encoding: "utf8" }), key.fingerprint)
        assert.strictEqual(readFileSync(`${file}.pub`, "utf8").trim(), `${key.publicKey} someone`)
        const folder = yield* temporaryFolder
        const [signers, signature] = [join(folder, "signers"), join(folder, "signature")]
        writeFileSync(signers, `a@example.com ${key.publicKey}\n`)
        const verified = (said: string, namespace = "git") =>
          spawnSync("ssh-keygen", ["-Y", "verify", "-f", signers, "-I", "a@example.com", "-n", namespace, "-s", signature], {
            input: said
          }).status
        for (const content of ["", "a", "tree\n".repeat(10_000)]) {
          writeFileSync(signature, key.sign(Buffer.from(content)))
          assert.deepStrictEqual([verified(content), verified(`${content}x`), verified(content, "file")], [0, 255, 255])
          // Byte for byte what ssh-keygen writes itself.
          const own = execFileSync("ssh-keygen", ["-q", "-Y", "sign", "-f", file, "-n", "git"], {
            input: content,
            stdio: ["pipe", "pipe", "ignore"]
          })
          assert.strictEqual(own.toString(), key.sign(Buffer.from(content)))
        }
      }))
  }

  it.live("a key with a passphrase, in any format, says so", () =>
    Effect.gen(function*() {
      const files = [
        yield* made("-t", "ed25519", "-N", "secret words"),
        yield* made("-t", "rsa", "-b", "2048", "-N", "secret words", "-m", "PEM"),
        yield* made("-t", "rsa", "-b", "2048", "-N", "secret words", "-m", "PKCS8")
      ]
      for (const file of files) assert.match(yield* problemOf(file), /^it has a passphrase/u)
    }))

  it.live("another kind, a short key, a public one, and what is no key each have their reason", () =>
    Effect.gen(function*() {
      assert.match(yield* problemOf(yield* made("-t", "ecdsa", "-N", "")), /^it is of the kind ecdsa-sha2-nistp256\./u)
      assert.match(yield* problemOf(yield* made("-t", "rsa", "-b", "1024", "-N", "")), /^it is an RSA key of 1024 bits\./u)
      const file = yield* made("-t", "ed25519", "-N", "")
      assert.match(yield* problemOf(`${file}.pub`), /^it is a public key\./u)
      const whole = readFileSync(file, "utf8")
      const folder = yield* temporaryFolder
      const written = (content: string) => {
        writeFileSync(join(folder, "other"), content)
        return problemOf(join(folder, "other"))
      }
      for (const content of ["", "hello\n", "x".repeat(100_000), whole.slice(0, 100), whole.replace(/.{40}\n-----END/u, "\n-----END")]) {
        assert.strictEqual(yield* written(content), "it is no SSH private key", JSON.stringify(content.slice(0, 20)))
      }
      const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" })
      assert.match(yield* written(privateKey.export({ type: "pkcs8", format: "pem" }).toString()), /^it is of the kind ec\./u)
    }))

  it.live("a file that is missing, or a folder, cannot be read", () =>
    Effect.gen(function*() {
      const folder = yield* temporaryFolder
      chmodSync(folder, 0o700)
      for (const file of [join(folder, "missing"), folder]) {
        assert.strictEqual(yield* problemOf(file), "the file cannot be read by the user that Slipway runs as")
      }
    }))
})

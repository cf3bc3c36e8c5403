/**
 * Secrets for one command. The command line or a file names them, and their values come from the environment or the file: values never
 * stand in arguments.
 */
import { MAX_VALUES_BYTES, SecretValue } from "@slipway/domain/environment/ports/SecretStore"
import { SecretName } from "@slipway/domain/environment/rules/Environment"
import { Effect, Option, Redacted, Schema } from "effect"
import { Flag } from "effect/cli"
import { open } from "node:fs/promises"

/** The given text is not a usable secret. The error never repeats it. */
class UnusableSecret extends Schema.TaggedError<UnusableSecret>()("UnusableSecret", { detail: Schema.String }) {
  override get message() {
    return this.detail
  }
}

export const flags = {
  secret: Flag.String("secret").pipe(
    Flag.withDescription("Secret whose value is in the environment variable of this name; repeatable"),
    Flag.atLeast(0)
  ),
  secretsFile: Flag.File("secrets-file", { mustExist: true }).pipe(
    Flag.withDescription("File of lines NAME=value; empty lines and lines that begin with # are ignored"),
    Flag.optional
  )
}

const isName = Schema.is(SecretName)

const checked = (name: string, value: string, where: string) => {
  if (!isName(name)) {
    return new UnusableSecret({ detail: `${where} takes names of capital letters, digits and _ that the service does not set itself` })
  }
  if (!Schema.is(SecretValue)(value)) {
    return new UnusableSecret({ detail: `${where} takes values of 1 byte to 64 KiB of UTF-8 without NUL, and ${name} has another one` })
  }
  return Effect.succeed([name, Redacted.make(value)] as const)
}

/** Also removes it from the environment, which child processes inherit. */
const fromEnvironment = (name: string) =>
  Effect.suspend(() => {
    const value = process.env[name]
    if (isName(name) && value === undefined) {
      return new UnusableSecret({ detail: `--secret names the environment variable ${name}, which is not set` })
    }
    delete process.env[name]
    return checked(name, value ?? "", "--secret")
  })

const readText = (file: string) =>
  Effect.tryPromise({
    try: async () => {
      const handle = await open(file)
      try {
        const { buffer, bytesRead } = await handle.read(Buffer.alloc(2 * MAX_VALUES_BYTES), 0, 2 * MAX_VALUES_BYTES, 0)
        return new TextDecoder("utf-8", { fatal: true }).decode(buffer.subarray(0, bytesRead))
      } finally {
        await handle.close()
      }
    },
    catch: () => new UnusableSecret({ detail: `${file} cannot be read, or is no UTF-8` })
  })

const fromFile = Effect.fnUntraced(function*(file: string) {
  const lines = (yield* readText(file)).split(/\r?\n/u)
  const given = lines.flatMap((line, i) => line.trim() === "" || line.startsWith("#") ? [] : [{ line, where: `line ${i + 1} of ${file}` }])
  return yield* Effect.forEach(given, ({ line, where }) => {
    const at = line.indexOf("=")
    return at === -1
      ? new UnusableSecret({ detail: `${where} is not NAME=value` })
      : checked(line.slice(0, at).trim(), line.slice(at + 1), where)
  })
})

/** For a name that is given twice, the value of `--secret` wins. */
export const read = Effect.fnUntraced(function*(given: {
  readonly secret: ReadonlyArray<string>
  readonly secretsFile: Option.Option<string>
}) {
  const inFile = Option.isSome(given.secretsFile) ? yield* fromFile(given.secretsFile.value) : []
  return new Map([...inFile, ...yield* Effect.forEach(given.secret, fromEnvironment)])
})

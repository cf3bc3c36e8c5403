/** Credentials for an object store, of the environment or of a file. */
import { codeTextOf } from "@slipway/domain/files/rules/SystemError"
import { Effect, Redacted, Schema } from "effect"
import { readFile } from "node:fs/promises"

export interface S3Credentials {
  readonly accessKeyId: string
  readonly secretAccessKey: Redacted.Redacted
  /** Of temporary credentials. */
  readonly sessionToken: Redacted.Redacted | null
}

/** The file cannot be used. `problem` is a sentence without any content of the file. */
export class CredentialsUnusable extends Schema.TaggedError<CredentialsUnusable>()("CredentialsUnusable", { problem: Schema.String }) {
  override get message() {
    return this.problem
  }
}

/** Bytes. */
const MAX_FILE = 64 * 1024

/** The values of the section `default` of a file as AWS has it (`~/.aws/credentials`), or of a file without sections. */
const valuesIn = (text: string): ReadonlyMap<string, string> => {
  const values = new Map<string, string>()
  let section = "default"
  for (const line of text.split(/\r?\n/u)) {
    section = /^\s*\[\s*([^\]]*?)\s*\]/u.exec(line)?.[1] ?? section
    const [, name, value] = /^\s*(aws_\w+)\s*=\s*(\S+)\s*$/u.exec(line) ?? []
    if (section === "default" && name !== undefined && value !== undefined) values.set(name, value)
  }
  return values
}

/** Reads the file each time: another program may replace temporary credentials. */
export const ofFile = (file: string): Effect.Effect<S3Credentials, CredentialsUnusable> =>
  Effect.gen(function*() {
    const text = yield* Effect.tryPromise({
      try: () => readFile(file, "utf8"),
      catch: (error) => new CredentialsUnusable({ problem: `The file of credentials ${file} cannot be read: ${codeTextOf(error)}` })
    })
    const values = valuesIn(text.slice(0, MAX_FILE))
    const [accessKeyId, secretAccessKey] = [values.get("aws_access_key_id"), values.get("aws_secret_access_key")]
    const sessionToken = values.get("aws_session_token")
    if (accessKeyId === undefined || secretAccessKey === undefined) {
      return yield* new CredentialsUnusable({
        problem: `The file of credentials ${file} needs the lines aws_access_key_id = … and aws_secret_access_key = …`
      })
    }
    return {
      accessKeyId,
      secretAccessKey: Redacted.make(secretAccessKey),
      sessionToken: sessionToken === undefined ? null : Redacted.make(sessionToken)
    }
  })

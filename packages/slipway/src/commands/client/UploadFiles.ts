/** Files of the command line for a prompt. */
import type { PromptFile } from "@slipway/client"
import { MAX_FILE_BYTES } from "@slipway/domain/files/rules/UploadedFile"
import { MAX_FILES } from "@slipway/domain/sandbox/schema/PromptFile"
import { Effect } from "effect"
import { Flag } from "effect/cli"
import { readFile, stat } from "node:fs/promises"
import { basename } from "node:path"
import * as Server from "./Server.ts"

const MEBIBYTE = 1024 * 1024

/** `--file`. */
export const files = Flag.String("file").pipe(
  Flag.withDescription(`File for the agent, such as a screenshot or a log; repeatable, up to ${MAX_FILES}`),
  Flag.atMost(MAX_FILES)
)

const unclear = (detail: string) => new Server.CommandFailed({ detail, exitCode: Server.ExitCode.unclear })

const read = Effect.fnUntraced(function*(path: string) {
  const found = yield* Effect.tryPromise({ try: () => stat(path), catch: () => unclear(`${path} cannot be read.`) })
  if (!found.isFile()) return yield* unclear(`${path} is not a file.`)
  if (found.size > MAX_FILE_BYTES) {
    return yield* unclear(`${path} has more than ${MAX_FILE_BYTES / MEBIBYTE} MiB. Put it where the sandbox can fetch it.`)
  }
  return yield* Effect.tryPromise({ try: () => readFile(path), catch: () => unclear(`${path} cannot be read.`) })
})

/** Uploads the files, in their order. All are read before the first is sent. */
export const upload = Effect.fnUntraced(function*({ client, transfer }: Server.Server, paths: ReadonlyArray<string>) {
  const contents = yield* Effect.forEach(paths, (path) => Effect.map(read(path), (bytes) => ({ bytes, name: basename(path) })))
  return yield* Effect.forEach(contents, ({ bytes, name }) =>
    Effect.map(
      transfer((signal) => client.uploadFile(new Uint8Array(bytes), { name, signal })),
      ({ id }: PromptFile) => ({ id })
    ))
})

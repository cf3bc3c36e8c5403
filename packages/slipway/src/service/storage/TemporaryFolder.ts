/** A folder that is removed when the scope closes, in any case. */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import path from "node:path"

/** The folder for temporary files cannot be written to. */
class NoTemporaryFolder extends Schema.TaggedError<NoTemporaryFolder>()("NoTemporaryFolder", {
  folder: Schema.String,
  /** The error code of the system. */
  code: Schema.String
}) {
  override get message() {
    const reason = this.code === "ENOENT" ? "it is not there" : `it cannot be written to (${this.code})`
    return `Temporary files cannot be put into ${this.folder}: ${reason}. Mend that, or name another folder with TMPDIR.`
  }
}

export const make = (purpose: string) =>
  Effect.acquireRelease(
    Effect.tryPromise({
      try: () => mkdtemp(path.join(tmpdir(), `slipway-${purpose}-`)),
      catch: (error) =>
        new NoTemporaryFolder({ folder: tmpdir(), code: error instanceof Error && "code" in error ? String(error.code) : String(error) })
    }),
    (folder) => Effect.promise(() => rm(folder, { recursive: true, force: true }))
  )

/** Fails without a usable folder for temporary files. */
export const usable = Effect.scoped(Effect.asVoid(make("try")))

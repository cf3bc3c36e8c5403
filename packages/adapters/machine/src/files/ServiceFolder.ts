/** The folder in which a service keeps its boxes, and what it may do for them as the user that it is. */
import { Effect } from "effect"
import { createHash } from "node:crypto"
import { chmod, mkdir, realpath } from "node:fs/promises"
import { NotIsolated } from "../host/NotIsolated.ts"
import { OptionNames } from "../options/OptionNames.ts"
import * as Uids from "../users/Uids.ts"

export interface ServiceFolder {
  /** Holds what there is of sandboxes beside their trees; no link in its path. */
  readonly directory: string
  /** Tells what belongs to this service from what belongs to others on the machine. */
  readonly service: string
  /** `null`: all boxes run as our own user. */
  readonly uids: ReturnType<typeof Uids.make> | null
}

export interface Options {
  /** Made when missing. */
  readonly directory: string
  /** Where services of this machine keep which users they gave away. Default {@link Uids.REGISTRY}. */
  readonly uidRegistry?: string
}

export const open = Effect.fnUntraced(function*(options: Options) {
  const nameOf = yield* OptionNames
  const isRoot = process.getuid?.() === 0
  const range = isRoot ? Uids.range() : null
  if (isRoot && range === null) {
    return yield* new NotIsolated({
      missing: ["This root can become too few other users, and boxes never run as root."],
      help: "Run the service as a normal user, or map more users into its container."
    })
  }
  return yield* Effect.tryPromise({
    try: async (): Promise<ServiceFolder> => {
      await mkdir(options.directory, { recursive: true, mode: 0o711 })
      const directory = await realpath(options.directory)
      // As a host without isolation may have left it.
      await chmod(directory, 0o711)
      const uids = range === null ? null : Uids.make({ registry: options.uidRegistry ?? Uids.REGISTRY, directory, range })
      await uids?.prune()
      return { directory, service: `slipway-${createHash("sha256").update(directory).digest("hex").slice(0, 12)}`, uids }
    },
    catch: (error) =>
      new NotIsolated({
        missing: [`${options.directory} cannot be used (${error instanceof Error ? error.message : error}).`],
        help: `Choose another folder with ${nameOf("dataDir")}.`
      })
  })
})

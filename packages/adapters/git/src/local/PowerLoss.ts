/**
 * Trees that may lack what was written to them last, since their machine lost its power or its kernel died. Nothing that an agent
 * writes is synced. The kernel has another id after each start; a process that ends in order says so, and what it left is written
 * by the kernel within half a minute, or when the machine is shut down.
 *
 *     <directory>/machine    the kernel's id while a process has the folder, and whose trees are not whole
 */
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { textIn } from "@slipway/machine/node/IsThere"
import { Effect, Option, Schema, Semaphore } from "effect"
import { join } from "node:path"
import { replaceFile } from "../RepositoryLayout.ts"

/** The kernel's id since it started; `undefined` where there is none, and no loss of power is noticed. */
export const bootId = Effect.promise(() => textIn("/proc/sys/kernel/random/boot_id", undefined).then((id) => id?.trim()))

const Machine = Schema.Struct({
  /** `null`: the process before this one ended in order. */
  bootId: Schema.NullOr(Schema.String),
  torn: Schema.Array(SandboxId)
})
const MachineFile = Schema.fromJsonString(Machine)

/** `there`: sandboxes that have trees in the folder. One process at a time. */
export const watch = Effect.fnUntraced(function*(directory: string, there: ReadonlyArray<SandboxId>, boot: string | undefined) {
  const path = join(directory, "machine")
  const said = yield* Effect.promise(() => textIn(path, ""))
  const before = Option.getOrElse(Schema.decodeOption(MachineFile)(said), () => ({ bootId: null, torn: [] }))
  const wentDown = boot !== undefined && before.bootId !== null && before.bootId !== boot
  const torn = new Set(wentDown ? there : before.torn.filter((id) => there.includes(id)))
  if (wentDown && torn.size > 0) {
    yield* Effect.logWarning("the machine went down without warning: sandboxes go on from their last checkpoint", { sandboxes: torn.size })
  }
  const one = yield* Semaphore.make(1)
  const write = (bootId: string | null) =>
    one.withPermits(1)(Effect.suspend(() => {
      const content = Schema.encodeSync(MachineFile)({ bootId, torn: Array.from(torn) })
      return Effect.promise(() => replaceFile(path, content))
    })).pipe(Effect.catchCause((cause) => Effect.logWarning("which trees a loss of power tore could not be noted", cause)))
  if (boot !== undefined) {
    yield* write(boot)
    yield* Effect.addFinalizer(() => write(null))
  }
  return {
    isWhole: (id: SandboxId): boolean => !torn.has(id),
    /** They were made anew, saved as they are, or removed. */
    settle: (id: SandboxId): Effect.Effect<void> => Effect.suspend(() => torn.delete(id) ? write(boot ?? null) : Effect.void)
  }
})

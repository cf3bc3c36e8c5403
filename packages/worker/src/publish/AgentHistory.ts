/** The agent's own commits, read in its box: git runs with the agent's configuration, which may be hostile. */
import type { SnapshotOptions } from "@slipway/domain/files/ports/WorkingTrees"
import type { Box } from "@slipway/domain/sandbox/ports/SandboxHost"
import { Effect, Stream } from "effect"

/** Arguments: the folder, the commit the tree started from. Prints nothing when there are no commits after it. */
const SCRIPT = `
cd "$1" && head=$(git rev-parse --verify --quiet "HEAD^{commit}") && [ "$head" != "$2" ] || exit 0
echo "$head"
printf '%s\\n^%s\\n' "$head" "$2" | git pack-objects --revs --stdout --quiet
`

/** Longer than any history of a reasonable size takes. */
const WITHIN = "2 minutes"

/** For `WorkingTrees.snapshot`. Empty or incomplete when the box fails. */
export const read = (box: Box, folder: string): NonNullable<SnapshotOptions["history"]> => (baseSha) =>
  Stream.unwrap(
    Effect.map(
      box.spawn({ command: "sh", args: ["-c", SCRIPT, "slipway-history", `${box.workspace}/${folder}`, baseSha], env: {} }),
      ({ stdout }) => stdout
    )
  ).pipe(
    Stream.interruptWhen(Effect.sleep(WITHIN)),
    Stream.catch(({ message }) =>
      Stream.drain(Stream.fromEffect(Effect.logWarning("the agent's commits cannot be read", { reason: message })))
    )
  )

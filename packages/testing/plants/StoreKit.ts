import { type Plants, plantsIn } from "./Plant.ts"

const example = "examples/sqlite-store/src"
const kit = "packages/domain/src/sandbox/kit"

/** Faults of checkpoints, forks and setups by the kit. Those of its other ports are at `SandboxStore`, `Leases` and `Maintenance`. */
export const plants: Plants = {
  port: "StoreKit",
  subject: "examples/sqlite-store/test/Checkpoints.suites.ts",
  anew: [`${example}/`, `${kit}/`],
  plants: [
    ...plantsIn(`${kit}/CheckpointRows.ts`, [
      ["shows what another lease put", "puts.findLast((one) => one.fence === fence)", "puts.at(-1)"],
      ["shows what the first put stored", "puts.findLast(", "puts.find("],
      ["shows a put of which nothing is stored", "if (last === undefined || last.bytes === null) continue",
        "if (last === undefined) continue"],
      ["forgets which commits it is of", "JSON.stringify({ turnId, repos }", "JSON.stringify({ turnId, repos: [] }"],
      ["does not tell which turn had ended", "JSON.stringify({ turnId, repos }", "JSON.stringify({ turnId: null, repos }"],
      ["forks what is not recorded", "find((one) => isRecorded(one) && one.checkpoint", "find((one) => one.checkpoint"],
      ["forks what is forgotten", "if (content === undefined) return yield* new CheckpointNotFound()", "if (content === undefined) return"],
      ["does not keep what a fork starts with", "forks: content.forks + 1", "forks: content.forks"],
      ["keeps for ever what a fork started with", "forks: content.forks - 1", "forks: content.forks"],
      ["never looks at what may be forgotten", "dueAt: 0", "dueAt: null"]
    ]),
    ...plantsIn(`${kit}/CheckpointsKit.ts`, [
      ["takes what a worker stores that lost its lease", "row?.fence === fence ? body", "row !== undefined ? body"],
      ["refuses one of just the size that is allowed", "bytes > MAX_CHECKPOINT_BYTES", "bytes >= MAX_CHECKPOINT_BYTES"],
      ["takes one of any size", "if (bytes > MAX_CHECKPOINT_BYTES) return Effect.fail(new CheckpointTooLarge())", ""],
      ["forgets the last piece", "if (size > 0) yield* flush", ""],
      ["stores chunks in the order of their arrival backwards", "all.set(chunk, at)", "all.set(chunk, all.length - at - chunk.length)"],
      ["shows an earlier put where the last one failed", "save(\"contents\", [row])))", "Effect.void))"],
      ["keeps one more of a live sandbox", "checkpoint > newest - KEPT", "checkpoint >= newest - KEPT"],
      ["forgets what a sandbox is to go back to", " || checkpoint === restoring)", ")"],
      ["keeps all of a settled one", "checkpoint === newest && isAfter", "isAfter"],
      ["keeps the last of a settled one for longer", "row.endedAt > endedBefore", "row.endedAt >= endedBefore"],
      ["forgets what a fork starts with", "forks > 0 || (", "("],
      ["keeps what a lost lease put", "!isOver && fence === row.fence && checkpoint > newest", "!isOver && checkpoint > newest"],
      ["keeps other puts of a recorded checkpoint", "fence === row.fence && checkpoint > newest &&", "fence === row.fence &&"],
      ["keeps what was put of a settled sandbox", "!isOver && fence === row.fence", "fence === row.fence"],
      ["keeps what a later put replaced", "later.put > put &&", "false &&"],
      ["forgets what a put under way may still record", "mayBeRecorded(one) : isKept", "false : isKept"],
      ["does not look again when a settled one has had its time", "isDueLater ? row.endedAt : null", "null"],
      ["begins a page with the last one of the page before", "row.checkpoint > after ?", "row.checkpoint >= after ?"],
      ["lists all that there are", ".slice(0, limit)", ""],
      ["gives less where pieces are missing", "piece === undefined ? yield* new CheckpointNotFound()", "piece === undefined ? undefined"],
      ["reads what is not recorded", "row.recordedAt !== null && row.checkpoint === checkpoint", "row.checkpoint === checkpoint"]
    ]),
    ...plantsIn(`${kit}/LeasesKit.ts`, [
      ["leaves what a lost lease put",
        "if ((yield* contents(id)).some(({ recordedAt }) => recordedAt === null)) yield* mark(statements, [id])", ""]
    ]),
    ...plantsIn(`${kit}/SetupsKit.ts`, [
      ["takes what a worker saves whose lease is another's", "if (lease?.fence !== fence) return", "if (lease === undefined) return"],
      ["knows commits in one case of letters", "repo.toLowerCase()", "repo"]
    ]),
    ...plantsIn(`${kit}/Rows.ts`, [
      ["does not notice that a pull request was merged", "merged: 1", "merged: 0"],
      ["takes all that a sandbox pushed for merged", "if (row.repo === name) rows.set", "rows.set"]
    ]),
    ...plantsIn(`${example}/Statements.ts`, [
      ["keeps the setup when the events are forgotten", "[\"events\", \"traces\", \"setups\"]", "[\"events\", \"traces\"]"],
      ["takes another repository's commit for this one", "sha = :sha AND repo = :repo AND", "sha = :sha AND :repo <> '' AND"],
      ["takes a merged commit for an unmerged one", "AND merged = 0 LIMIT", "LIMIT"],
      ["forgets contents of all sandboxes", "DELETE FROM contents WHERE sandboxId = :id AND", "DELETE FROM contents WHERE :id <> '' AND"],
      ["looks at more sandboxes than asked for", "ORDER BY dueAt LIMIT :limit", "ORDER BY dueAt LIMIT :limit + 1"]
    ])
  ]
}

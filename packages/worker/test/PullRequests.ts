import type { PullRequest } from "@slipway/domain/source/schema/PullRequest"
import { DateTime } from "effect"

const at = DateTime.makeUnsafe("2026-11-22T00:00:00.000Z")

/** A draft that a source host tells of. */
export const draft = (headRef: string, headSha: string, number = 7): PullRequest => ({
  id: 1,
  nodeId: "n",
  number,
  url: "https://h/7",
  title: "T",
  state: "open",
  draft: true,
  merged: false,
  baseRef: "main",
  headRef,
  headSha,
  createdAt: at,
  updatedAt: at,
  additions: 1,
  deletions: 0,
  changedFiles: 1
})

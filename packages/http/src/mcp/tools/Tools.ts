/** Every tool, in the order of `tools/list`. */
import { listArtifacts, readArtifact } from "./ArtifactTools.ts"
import { getDiff, publishPullRequest, readFile } from "./ChangesTools.ts"
import { createSandbox, getSandbox, listSandboxes, terminateSandbox } from "./SandboxTools.ts"
import type { Tool } from "./Tool.ts"
import { answerQuestion, decideApproval, sendMessage } from "./TurnTools.ts"
import { waitForSandbox } from "./WaitForSandbox.ts"

export const tools: ReadonlyArray<Tool> = [
  createSandbox,
  listSandboxes,
  getSandbox,
  waitForSandbox,
  sendMessage,
  decideApproval,
  answerQuestion,
  getDiff,
  readFile,
  listArtifacts,
  readArtifact,
  publishPullRequest,
  terminateSandbox
]

/** The name of the tool that may take minutes. */
export const WAIT = waitForSandbox.name

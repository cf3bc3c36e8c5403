/** A sandbox as the interface shows it (2.1): every field always there, nothing else. */
import { Schema } from "effect"
import { RepoRef } from "../source/RepoRef.ts"
import { Timestamp } from "../Timestamp.ts"
import { AgentRuntimeName } from "./AgentRuntime.ts"
import type { Sandbox } from "./Sandbox.ts"
import { SandboxStatus } from "./SandboxEvent.ts"
import { SandboxId, worktreeId } from "./SandboxId.ts"
import { isActive } from "./Turn.ts"
import { Usage } from "./Usage.ts"

/** A sandbox as the interface shows it (interface 2.1). */
export const SandboxResource = Schema.Struct({
  id: SandboxId,
  worktreeId: Schema.NonEmptyString,
  object: Schema.Literal("sandbox"),
  status: SandboxStatus,
  title: Schema.String,
  repos: Schema.Array(RepoRef),
  model: Schema.NullOr(Schema.String),
  agentRuntime: AgentRuntimeName,
  /** `active`: a turn is pending, running or waits for an approval. */
  turn: Schema.Struct({ active: Schema.Boolean }),
  /** Eventually consistent. */
  usage: Usage,
  metadata: Schema.Record(Schema.String, Schema.String),
  /** A sentence when failed. */
  error: Schema.NullOr(Schema.String),
  createdAt: Timestamp,
  startedAt: Schema.NullOr(Timestamp),
  completedAt: Schema.NullOr(Timestamp),
  /** Absolute, from the configured public address. */
  links: Schema.Struct({ self: Schema.String, events: Schema.String, messages: Schema.String })
}).annotate({ identifier: "Sandbox" })
export type SandboxResource = typeof SandboxResource.Type

/** Address of a sandbox. `publicUrl` has no slash at its end and never comes from a request. */
export const selfLink = (publicUrl: string, id: SandboxId): string => `${publicUrl}/api/public/v1/sandboxes/${id}`

/** `publicUrl` has no slash at its end and never comes from a request. */
export const toResource = (sandbox: Sandbox, publicUrl: string): SandboxResource => {
  const self = selfLink(publicUrl, sandbox.id)
  return {
    id: sandbox.id,
    worktreeId: worktreeId(sandbox.id),
    object: "sandbox",
    status: sandbox.status,
    title: sandbox.title,
    repos: sandbox.repos,
    model: sandbox.model,
    agentRuntime: sandbox.agentRuntime,
    turn: { active: isActive(sandbox.turn) },
    usage: sandbox.usage,
    metadata: sandbox.metadata,
    error: sandbox.status === "failed" ? sandbox.error : null,
    createdAt: sandbox.createdAt,
    startedAt: sandbox.startedAt,
    completedAt: sandbox.completedAt,
    links: { self, events: `${self}/events`, messages: `${self}/messages` }
  }
}

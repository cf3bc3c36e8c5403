/** What a container of a box sees and may do, in the daemon's words. An allow list: what is not named here is not there. */
import { dirname } from "node:path"
import type { ContainerCreateOptions } from "dockerode"
import { EGRESS_SOCKET, SCRATCH, WORKSPACE } from "../box/Places.ts"
import type { Limits } from "../box/Limits.ts"

/** Names what a container is for, for us and for people who list them. */
export const labels = { instance: "dev.slipway.instance", sandbox: "dev.slipway.sandbox", worker: "dev.slipway.worker" }

export interface Sight {
  readonly image: string
  readonly labels: Readonly<Record<string, string>>
  readonly user: { readonly uid: number; readonly gid: number }
  /** Path of the agent's home in the box. */
  readonly home: string
  /** Host folders that become the home, the scratch folder and the workspace: all that a box can write to on a disk. */
  readonly homeFolder: string
  readonly scratchFolder: string
  readonly workspaceFolder: string
  /** Host paths that appear in the box where they are on the host. Each must be there. */
  readonly readOnly: ReadonlyArray<string>
  /** Files of {@link etc} that become files of `/etc`. */
  readonly etc: string
  readonly etcFiles: ReadonlyArray<string>
  /** Host path of the egress socket; `null`: there is no way out. */
  readonly egressSocket: string | null
  readonly seccompProfile: string
  readonly limits: Limits
  readonly environment: Readonly<Record<string, string>>
  readonly command: ReadonlyArray<string>
}

const bind = (Source: string, Target: string, ReadOnly: boolean) => ({ Type: "bind" as const, Source, Target, ReadOnly })

export const options = (sight: Sight): ContainerCreateOptions => {
  const { limits } = sight
  return {
    Image: sight.image,
    Labels: { ...sight.labels },
    Hostname: "sandbox",
    User: `${sight.user.uid}:${sight.user.gid}`,
    // A name alone takes away what the daemon would set.
    Env: ["HOSTNAME", ...Object.entries(sight.environment).map(([name, value]) => `${name}=${value}`)],
    WorkingDir: WORKSPACE,
    // Whatever the image would run by itself is not ours.
    Entrypoint: [...sight.command],
    Cmd: [],
    Healthcheck: { Test: ["NONE"] },
    OpenStdin: true,
    StdinOnce: true,
    AttachStdin: true,
    AttachStdout: true,
    AttachStderr: true,
    HostConfig: {
      // The first process: it ends when the command does, hands on signals, and sees to orphans.
      Init: true,
      AutoRemove: false,
      LogConfig: { Type: "none", Config: {} },
      NetworkMode: "none",
      IpcMode: "private",
      CapDrop: ["ALL"],
      SecurityOpt: ["no-new-privileges", `seccomp=${sight.seccompProfile}`],
      ReadonlyRootfs: true,
      Mounts: [
        ...sight.readOnly.map((path) => bind(path, path, true)),
        ...sight.etcFiles.map((name) => bind(`${sight.etc}/${name}`, `/etc/${name}`, true)),
        bind(sight.homeFolder, sight.home, false),
        bind(sight.scratchFolder, SCRATCH, false),
        bind(sight.workspaceFolder, WORKSPACE, false),
        ...(sight.egressSocket === null ? [] : [bind(sight.egressSocket, EGRESS_SOCKET, true)])
      ],
      Tmpfs: {
        "/tmp": `rw,nosuid,nodev,exec,size=${limits.memoryFilesBytes},mode=1777`,
        ...(sight.egressSocket === null ? {} : { [dirname(EGRESS_SOCKET)]: "rw,nosuid,nodev,noexec,size=4096,mode=0755" })
      },
      ShmSize: limits.memoryFilesBytes,
      Memory: limits.memoryBytes,
      // The same: no swap.
      MemorySwap: limits.memoryBytes,
      PidsLimit: limits.processes,
      NanoCpus: Math.round(limits.cpus * 1e9),
      Ulimits: [
        { Name: "core", Soft: 0, Hard: 0 },
        { Name: "fsize", Soft: limits.fileBytes, Hard: limits.fileBytes },
        { Name: "nofile", Soft: limits.openFiles, Hard: limits.openFiles }
      ],
      // The kernel shall rather end a box than the service when memory runs out.
      OomScoreAdj: 500
    }
  }
}

/** The settings by which a command finds and trusts a service, for modules that load no setting. */

export const dataDir = { name: "SLIPWAY_DATA_DIR", default: ".slipway" } as const
export const databaseUrl = { name: "DATABASE_URL" } as const
export const port = { name: "SLIPWAY_PORT", default: "4000" } as const
export const caFile = { name: "SLIPWAY_CA_FILE" } as const

/** Owns the shape of what an alloc has of this host, as Nomad says it: its share for each task, and its ports. */

/** A port of the host under its label. `To` is 0: nothing is mapped. */
export interface PortJson {
  readonly Label: string;
  readonly Value: number;
  readonly To: number;
}

export interface AllocatedResourcesJson {
  /** By task. */
  readonly Tasks: Readonly<
    Record<
      string,
      {
        readonly Cpu: { readonly CpuShares: number };
        readonly Memory: { readonly MemoryMB: number; readonly MemoryMaxMB: number };
        readonly Networks: readonly never[];
        readonly Devices: readonly never[];
      }
    >
  >;
  readonly Shared: {
    readonly DiskMB: number;
    /** One when the group asks for ports, else none. */
    readonly Networks: readonly {
      readonly Mode: string;
      readonly IP: string;
      readonly ReservedPorts: readonly PortJson[];
      readonly DynamicPorts: readonly PortJson[];
    }[];
    /** The same ports, each with the address at which it is reached. Empty until the alloc has taken them. */
    readonly Ports: readonly (PortJson & { readonly HostIP: string })[];
  };
}

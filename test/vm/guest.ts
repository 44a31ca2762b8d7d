/** Owns what is put into the guest: its first program and its units. Plain text, no logic. */

/** The first program: loads what the disks need, mounts them, and hands over to systemd. */
export const INIT = `#!/bin/sh
mount -t proc p /proc
mount -t sysfs s /sys
mount -t devtmpfs d /dev
for module in $(cat /modules/order); do insmod /modules/$module || echo "insmod $module failed"; done
i=0
while [ ! -b /dev/vdc ] && [ $i -lt 200 ]; do sleep 0.05; i=$((i+1)); done
mount -t ext4 -o rw /dev/vda /root || exec sh
mount -t ext4 -o ro /dev/vdb /root/mnt/code
mount -t ext4 -o rw /dev/vdc /root/var/lib/holdfast
mount --move /dev /root/dev
umount /proc /sys
exec switch_root /root /sbin/init
`;

/** A root shell that the tests speak to, over a virtio port. */
export const SHELL_UNIT = `[Unit]
Description=root shell for the tests
After=multi-user.target
[Service]
ExecStart=/bin/sh -c 'exec <>/dev/virtio-ports/shell >&0 2>&1; echo GUEST-READY; exec /bin/bash --noprofile --norc'
Restart=always
RestartSec=0
# The tests fill disks and step clocks: the shell must see none of it.
OOMScoreAdjust=-1000
[Install]
WantedBy=multi-user.target
`;

/** What a guest without network, screen and updates need not start. */
export const MASKED_UNITS: readonly string[] = [
  'systemd-timesyncd.service',
  'systemd-networkd-wait-online.service',
  'systemd-pcrphase.service',
  'systemd-pcrphase-sysinit.service',
  'systemd-hwdb-update.service',
  'systemd-update-done.service',
  'systemd-journal-catalog-update.service',
  'systemd-modules-load.service',
  'systemd-udev-load-credentials.service',
  'systemd-binfmt.service',
  'ldconfig.service',
  'kmod-static-nodes.service',
  'modprobe@configfs.service',
  'modprobe@drm.service',
  'modprobe@efi_pstore.service',
  'modprobe@fuse.service',
  'getty@tty1.service',
  'serial-getty@ttyS0.service',
  'e2scrub_reap.service',
  'apt-daily.timer',
  'apt-daily-upgrade.timer',
  'dpkg-db-backup.timer',
  'e2scrub_all.timer',
  'fstrim.timer',
];

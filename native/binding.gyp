# Builds the plain executables of programs.json; node-gyp is only used because every host that can build our other native
# parts has it.
{
  'target_defaults': {
    'defines': ['HOLDFAST_VERSION="<!(node -p "require(\'../package.json\').version")"', '_FORTIFY_SOURCE=2'],
    # Node's own settings (C++ defaults, frame pointers, LTO) are not ours.
    'cflags!': ['-O3', '-fno-omit-frame-pointer', '-Wno-unused-parameter'],
    'cflags': [
      '-std=gnu17', '-O2', '-g0', '-fPIE', '-fstack-protector-strong', '-fstack-clash-protection', '-fno-common',
      '-Wall', '-Wextra', '-Werror', '-Wshadow', '-Wconversion', '-Wformat=2', '-Wstrict-prototypes',
      '-Wmissing-prototypes', '-Wswitch-enum', '-Wvla',
    ],
    'ldflags!': ['-rdynamic'],
    'ldflags': ['-pthread', '-pie', '-Wl,-z,relro,-z,now', '-Wl,-z,noexecstack', '-Wl,--as-needed', '-s'],
  },
  'targets': [
    {
      'target_name': 'holdfast-executor',
      'type': 'executable',
      'sources': ['<!@(node -p "require(\'./programs.json\')[\'holdfast-executor\'].join(\' \')")'],
    },
    {
      'target_name': 'holdfast-launcher',
      'type': 'executable',
      'sources': ['<!@(node -p "require(\'./programs.json\')[\'holdfast-launcher\'].join(\' \')")'],
    },
  ],
}

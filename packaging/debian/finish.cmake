# Makes Debian's of what `cmake --install` has put into the folders of packages:
# CPack runs this before it packs them.
set(root ${CPACK_TEMPORARY_INSTALL_DIRECTORY})

# ld.so finds the libraries in /usr/lib: neither they nor programs that link
# them have to remember where they lie.
file(GLOB_RECURSE binaries ${root}/*/usr/bin/* ${root}/*.so ${root}/*.so.*
     ${root}/*/read-hdf5)
foreach(binary IN LISTS binaries)
  if(NOT IS_SYMLINK ${binary})
    file(RPATH_REMOVE FILE ${binary})
  endif()
endforeach()
file(GLOB_RECURSE descriptions ${root}/*.pc)
foreach(description IN LISTS descriptions)
  file(READ ${description} text)
  string(REGEX REPLACE "-L[^ ]* -Wl,-rpath,[^ ]* " "" text "${text}")
  string(REGEX REPLACE "\nincludedir=[^\n]*" "\nincludedir=/usr/include" text
         "${text}")
  string(REGEX REPLACE "^prefix=[^\n]*\nlibdir=[^\n]*\n" "prefix=/usr\n" text
         "${text}")
  file(WRITE ${description} "${text}")
endforeach()

# /lib is a link to /usr/lib, so what lies beside a file is not always /usr.
file(GLOB_RECURSE targets ${root}/*Targets.cmake)
foreach(file IN LISTS targets)
  get_filename_component(folder ${file} DIRECTORY)
  string(REGEX REPLACE "^.*/usr/" "/usr/" folder ${folder})
  file(READ ${file} text)
  string(REPLACE [[get_filename_component(_IMPORT_PREFIX "${CMAKE_CURRENT_LIST_FILE}" PATH)]]
         "set(_IMPORT_PREFIX \"${folder}\")" text "${text}")
  file(WRITE ${file} "${text}")
endforeach()

# Packages of Python are in another folder than those that users install.
file(GLOB python ${root}/*/usr/lib/python3.*/site-packages)
foreach(folder IN LISTS python)
  string(REGEX REPLACE "python3[^/]*/site-packages$" "" lib ${folder})
  file(MAKE_DIRECTORY ${lib}/python3)
  file(RENAME ${folder} ${lib}/python3/dist-packages)
  get_filename_component(versioned ${folder} DIRECTORY)
  file(REMOVE_RECURSE ${versioned})
endforeach()

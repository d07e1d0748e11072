# libnib.so: the engine for programs that are not ours, through src/engine_c.h (<nib/engine_c.h> once it is
# installed). The static parts go into it as they are: they are position-independent for the program already, so
# nothing is compiled twice but engine_c.cpp itself.
include(GNUInstallDirs)

add_library(nib_shared SHARED src/engine_c.cpp)
target_link_libraries(nib_shared PRIVATE nib_engine)
set_target_properties(nib_shared PROPERTIES OUTPUT_NAME nib VERSION ${PROJECT_VERSION} SOVERSION 0
    LINK_DEPENDS ${CMAKE_SOURCE_DIR}/cmake/libnib.map)
# It stays once it is loaded: its handler of SIGBUS (files that shrink while they are mapped) does.
target_link_options(nib_shared PRIVATE -Wl,--version-script=${CMAKE_SOURCE_DIR}/cmake/libnib.map -Wl,-z,nodelete)
if(NOT NIB_SANITIZE)
    target_link_options(nib_shared PRIVATE -Wl,-z,defs)
endif()
configure_file(src/engine_c.h ${CMAKE_BINARY_DIR}/include/nib/engine_c.h COPYONLY)
target_include_directories(nib_shared INTERFACE ${CMAKE_BINARY_DIR}/include)

# Relative to itself, so that `cmake --install --prefix` may choose any folder.
file(RELATIVE_PATH NIB_PC_TO_PREFIX /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
configure_file(cmake/nib.pc.in ${CMAKE_BINARY_DIR}/nib.pc @ONLY)
install(TARGETS nib RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS nib_shared LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES src/engine_c.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/nib)
install(FILES ${CMAKE_BINARY_DIR}/nib.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
